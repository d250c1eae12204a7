"""TVM: tirx scripts for LLVM, and for GPUs."""
