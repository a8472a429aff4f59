#include "machine/clock.hpp"

#include "machine/multiversion.hpp"

namespace tandem::model {

TANDEM_MULTIVERSION void join_clocks(Clock into, ClockView from, int width) {
  for (int i = 0; i < width; ++i) into[i] = into[i] > from[i] ? into[i] : from[i];
}

}  // namespace tandem::model
