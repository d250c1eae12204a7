// TileLang's common.h includes rocWMMA and uses nothing of it but the types that it brings along.
// Debian has no rocWMMA: this brings the types.
#pragma once
#include <hip/hip_bfloat16.h>
#include <hip/hip_fp16.h>
