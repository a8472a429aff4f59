// Entry point of the kernel that makes the tile list of a ragged batch.
#include "attention/prepare.cuh"

TANDEM_KERNEL(tandem::kPrepareThreads, 1) tandem_prepare(TANDEM_GRID_CONSTANT tandem::PrepareParams params) { tandem::attention::Prepare(params).run(); }
