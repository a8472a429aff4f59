// The library of the Hopper model, opened where it is asked for.
#pragma once

#include "tandem/result.hpp"

namespace tandem::cli {

// Loads the library, which registers the backend "model"; once. Fails with a sentence where it is missing.
Status load_model();

}  // namespace tandem::cli
