// Hot loops are compiled for the baseline and for AVX2; the loader picks. Sanitizers run before the loader's choice can, so not under them.
#pragma once

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TANDEM_MULTIVERSION __attribute__((target_clones("avx2", "default")))
#else
#define TANDEM_MULTIVERSION
#endif
