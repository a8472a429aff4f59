// The kernel that makes the tile list of a ragged batch, as a host function.
#include "attention/prepare.cuh"
#include "forward/shipped_images.hpp"

namespace tandem::model {
namespace {

void entry(const void* params) { attention::Prepare(*static_cast<const PrepareParams*>(params)).run(); }

}  // namespace

Entry prepare_entry() { return &entry; }

}  // namespace tandem::model
