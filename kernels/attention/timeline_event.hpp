// What a kernel notes when its spec asks for a timeline. Plain C++20, shared with the host, which draws it.
#pragma once

namespace tandem {

// Moments of a role. An interval of a unit lies between two of them: see docs/MODEL.md.
enum class TimelineEvent : int {
  none,           // an unused entry
  tile_begin,     // consumer: the tile is known; producer: its first load follows
  qk_issued,      // S = Q K^T is in flight
  pv_issued,      // O += P V is in flight
  qk_done,        // S has landed
  softmax_done,   // P is ready
  pv_done,        // O has landed
  store_issued,   // O is on its way out
  load_acquired,  // producer: a stage was free
  load_issued,    // producer: its copy is in flight
  count,
};

constexpr const char* name_of(TimelineEvent event) {
  constexpr const char* kNames[] = {"none",         "tile begin", "QK issued",    "PV issued",  "QK done",
                                    "softmax done", "PV done",    "store issued", "stage free", "load issued"};
  static_assert(sizeof(kNames) / sizeof(kNames[0]) == static_cast<int>(TimelineEvent::count));
  return kNames[static_cast<int>(event)];
}

// The buffer: for each block of the grid, for each of its four possible warpgroups (0 the producer), this many words: cycles << 8 | event.
// Zeroed by the host; events beyond the capacity are not kept.
constexpr int kTimelineRoles = 4;
constexpr int kTimelineCapacity = 1024;

constexpr long long timeline_bytes(int blocks) { return 8ll * blocks * kTimelineRoles * kTimelineCapacity; }

}  // namespace tandem
