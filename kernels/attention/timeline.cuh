// Notes when things happen, for one lane of each warpgroup. Without the spec's `timeline` it is nothing: no state, no instruction.
#pragma once
#include "attention/params.hpp"
#include "attention/spec.hpp"
#include "attention/timeline_event.hpp"
#include "ptx/clock.cuh"
#include "ptx/platform.cuh"

namespace tandem::attention {

template <bool kOn>
class Timeline {
 public:
  TANDEM_DEVICE Timeline(const ForwardParams&, int) {}
  TANDEM_DEVICE void mark(TimelineEvent) {}
};

template <>
class Timeline<true> {
 public:
  TANDEM_DEVICE Timeline(const ForwardParams& params, int role)
      : next_(params.timeline + (static_cast<i64>(ptx::block_index()) * kTimelineRoles + role) * kTimelineCapacity),
        left_(ptx::thread_index() % 128 == 0 ? kTimelineCapacity : 0) {}

  TANDEM_DEVICE void mark(TimelineEvent event) {
    if (left_ == 0) return;
    ptx::store_global_8b(next_++, ptx::clock_cycles() << 8 | static_cast<u64>(event));
    --left_;
  }

 private:
  u64* next_;
  int left_;
};

}  // namespace tandem::attention
