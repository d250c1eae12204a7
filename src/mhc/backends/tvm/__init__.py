"""TVM: tirx scripts for LLVM."""
