#include "machine/policy.hpp"

namespace tandem::model {
namespace {

std::uint32_t pace(Random& random) {
  constexpr std::uint32_t kPaces[] = {0, 0, 4, 32, 128, 250};
  return kPaces[random.below(6)];
}

}  // namespace

Policy Policy::draw(Random& random) {
  Policy policy;
  policy.load = pace(random);
  policy.store = pace(random);
  policy.wgmma = pace(random);
  constexpr std::uint32_t kStay[] = {255, 250, 224, 128};
  policy.stay = kStay[random.below(4)];
  constexpr std::uint32_t kPreempt[] = {0, 1, 8, 32};
  policy.preempt = kPreempt[random.below(4)];
  if (random.chance(160)) {
    policy.slow_warps = 64;
    policy.hold_slow = random.chance(128) ? 255 : 200;
  }
  policy.load_pieces = 1 + random.below(3);
  policy.random_lanes = random.chance(128);
  policy.resident_clusters = 1 + static_cast<int>(random.below(3));
  return policy;
}

Policy Policy::in_time(int resident) {
  Policy policy;
  policy.preempt = 0;
  policy.resident_clusters = resident;
  return policy;
}

}  // namespace tandem::model
