// Entry point of a forward kernel. The text put before it defines kSpec, the configuration.
#include "attention/forward.cuh"

TANDEM_KERNEL(kSpec.threads(), kSpec.ctas_per_sm) tandem_forward(TANDEM_GRID_CONSTANT tandem::ForwardParams params) {
  tandem::attention::forward<kSpec>(params);
}
