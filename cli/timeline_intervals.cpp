#include "timeline_intervals.hpp"

#include <algorithm>
#include <map>

namespace tandem::cli {
namespace {

using Entries = std::vector<TimelineEntry>;

Entries of_role(const Entries& entries, int role) {
  Entries own;
  std::copy_if(entries.begin(), entries.end(), std::back_inserter(own), [&](const TimelineEntry& entry) { return entry.role == role; });
  return own;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A tile's loads are K of step 0, then K one step ahead of V, then V of the last step.
void add_loads(std::vector<Interval>& out, const Entries& tile, int tile_index) {
  const auto loads = static_cast<int>(std::count_if(tile.begin(), tile.end(), [](const TimelineEntry& e) { return e.event == TimelineEvent::load_issued; }));
  int load = 0;
  std::uint64_t before = tile.front().cycle;
  for (const TimelineEntry& entry : tile) {
    const bool is_v = load > 0 && (load % 2 == 0 || load == loads - 1);
    const int step = is_v ? (load - 1) / 2 : (load + 1) / 2;
    if (entry.event == TimelineEvent::load_acquired) out.push_back({Activity::stage_wait, 0, tile_index, step, before, entry.cycle});
    if (entry.event == TimelineEvent::load_issued) {
      out.push_back({is_v ? Activity::load_v : Activity::load_k, 0, tile_index, step, before, entry.cycle});
      ++load;
    }
    before = entry.cycle;
  }
}

// When a warpgroup last passed its turn on, up to a moment: right after it has issued its PV, or the QK that a tile begins with.
std::uint64_t last_pass(const Entries& giver, std::uint64_t until) {
  std::uint64_t pass = 0;
  for (std::size_t i = 0; i < giver.size() && giver[i].cycle <= until; ++i) {
    const bool first_qk = giver[i].event == TimelineEvent::qk_issued && i > 0 && giver[i - 1].event == TimelineEvent::tile_begin;
    if (first_qk || giver[i].event == TimelineEvent::pv_issued) pass = giver[i].cycle;
  }
  return pass;
}

void add_consumer(std::vector<Interval>& out, const Entries& own, int role, const Entries& giver) {
  int tile = -1, qk_step = 0, pv_step = 0;
  std::uint64_t before = 0, qk_begin = 0, pv_begin = 0, scores = 0, output = 0;
  // The first GEMM after a softmax, or of a tile, waits for the turn; a second one follows the first.
  bool issued_since_wait = false;
  const auto begin_of_issue = [&](std::uint64_t now) {
    const std::uint64_t begin = issued_since_wait ? before : std::max(before, last_pass(giver, now));
    issued_since_wait = true;
    return std::min(begin, now);
  };
  for (const TimelineEntry& entry : own) {
    const std::uint64_t now = entry.cycle;
    switch (entry.event) {
      case TimelineEvent::tile_begin:
        ++tile;
        qk_step = pv_step = 0;
        issued_since_wait = false;
        break;
      case TimelineEvent::qk_issued: qk_begin = begin_of_issue(now); break;
      case TimelineEvent::pv_issued: pv_begin = begin_of_issue(now); break;
      case TimelineEvent::qk_done:
        out.push_back({Activity::qk, role, tile, qk_step, qk_begin, now});
        scores = now;
        issued_since_wait = false;
        break;
      case TimelineEvent::softmax_done:
        out.push_back({Activity::softmax, role, tile, qk_step++, scores, now});
        issued_since_wait = false;
        break;
      case TimelineEvent::pv_done:
        out.push_back({Activity::pv, role, tile, pv_step++, pv_begin, now});
        output = now;
        break;
      case TimelineEvent::store_issued: out.push_back({Activity::store, role, tile, 0, output, now}); break;
      default: break;
    }
    before = now;
  }
}

}  // namespace

std::vector<TimelineEntry> decode_timeline(std::span<const std::uint64_t> words, int block) {
  Entries entries;
  std::uint64_t first = ~0ull;
  for (int role = 0; role < kTimelineRoles; ++role) {
    const auto own = words.subspan(static_cast<std::size_t>((block * kTimelineRoles + role) * kTimelineCapacity), kTimelineCapacity);
    for (const std::uint64_t word : own) {
      const auto event = static_cast<int>(word & 0xff);
      if (event == 0 || event >= static_cast<int>(TimelineEvent::count)) break;
      entries.push_back({role, static_cast<TimelineEvent>(event), word >> 8});
      first = std::min(first, word >> 8);
    }
  }
  for (TimelineEntry& entry : entries) entry.cycle -= first;
  return entries;
}

std::vector<Interval> intervals_of(const Entries& entries, const ForwardSpec& spec) {
  std::vector<Interval> intervals;
  Entries tile;
  int tiles = 0;
  for (const TimelineEntry& entry : of_role(entries, 0)) {
    if (entry.event == TimelineEvent::tile_begin && !tile.empty()) {
      add_loads(intervals, tile, tiles++);
      tile.clear();
    }
    tile.push_back(entry);
  }
  if (!tile.empty()) add_loads(intervals, tile, tiles);
  for (int w = 0; w < spec.consumer_warpgroups; ++w) {
    const int giver = (w + spec.consumer_warpgroups - 1) % spec.consumer_warpgroups;
    add_consumer(intervals, of_role(entries, w + 1), w + 1, spec.turns == Turns::gemm_issue ? of_role(entries, giver + 1) : Entries());
  }
  return intervals;
}

TimelineFigures figures_of(const std::vector<Interval>& intervals, const ForwardSpec& spec) {
  TimelineFigures figures;
  if (intervals.empty()) return figures;
  std::vector<double> steps, softmaxes;
  std::map<std::pair<int, int>, std::uint64_t> last_softmax;  // of a warpgroup in a tile
  std::uint64_t begin = ~0ull, end = 0;
  for (const Interval& interval : intervals) {
    begin = std::min(begin, interval.begin);
    end = std::max(end, interval.end);
    figures.tiles = std::max(figures.tiles, interval.tile + 1);
    if (interval.activity != Activity::softmax) continue;
    ++figures.steps;
    softmaxes.push_back(static_cast<double>(interval.end - interval.begin));
    const auto [last, first_of_tile] = last_softmax.try_emplace({interval.role, interval.tile}, interval.end);
    if (!first_of_tile) steps.push_back(static_cast<double>(interval.end - last->second));
    last->second = interval.end;
  }
  // m64nNk16 takes N / 2 cycles.
  const double tensor = spec.head_dim / 16.0 * spec.block_n / 2 + spec.block_n / 16.0 * spec.head_dim_v / 2;
  figures.step_cycles = median(steps);
  figures.softmax_cycles = median(softmaxes);
  figures.total_cycles = static_cast<double>(end - begin);
  if (figures.step_cycles > 0) figures.step_tensor_share = spec.consumer_warpgroups * tensor / figures.step_cycles;
  if (figures.total_cycles > 0) figures.total_tensor_share = figures.steps * tensor / figures.total_cycles;
  return figures;
}

}  // namespace tandem::cli
