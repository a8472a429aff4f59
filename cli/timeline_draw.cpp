#include "timeline_draw.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>

namespace tandem::cli {
namespace {

struct Look {
  const char* name;
  const char* colour;
  const char* legend;
};

// In the order of Activity.
constexpr Look kLooks[] = {
    {"waits", "#d9d9d9", "producer waits for a free stage"},
    {"K", "#4d4d4d", "load of K issued"},
    {"V", "#9a9a9a", "load of V issued"},
    {"QK", "#2f6db5", "S = Q K\u1d40 in flight"},
    {"PV", "#1b9e8a", "O += P V in flight"},
    {"softmax", "#e08214", "softmax"},
    {"store", "#8e5ea2", "epilogue, O stored"},
};
static_assert(std::size(kLooks) == static_cast<std::size_t>(Activity::count));

const Look& look_of(Activity activity) { return kLooks[static_cast<std::size_t>(activity)]; }

// A row of a picture: the intervals that it shows.
struct Lane {
  std::string label;
  std::vector<Interval> intervals;
};

Lane lane_of(std::string label, const Timeline& timeline, const std::function<bool(const Interval&)>& belongs) {
  Lane lane{std::move(label), {}};
  std::copy_if(timeline.intervals.begin(), timeline.intervals.end(), std::back_inserter(lane.intervals), belongs);
  std::stable_sort(lane.intervals.begin(), lane.intervals.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  return lane;
}

// Joins what touches: a unit is used while anyone uses it.
Lane unit_of(std::string label, const Timeline& timeline, const std::function<bool(const Interval&)>& uses) {
  Lane lane = lane_of(std::move(label), timeline, uses);
  std::vector<Interval> joined;
  for (const Interval& interval : lane.intervals) {
    if (joined.empty() || interval.begin > joined.back().end)
      joined.push_back(interval);
    else
      joined.back().end = std::max(joined.back().end, interval.end);
  }
  lane.intervals = std::move(joined);
  return lane;
}

bool multiplies(const Interval& interval) { return interval.activity == Activity::qk || interval.activity == Activity::pv; }
bool exponentiates(const Interval& interval) { return interval.activity == Activity::softmax; }

struct Lanes {
  std::vector<Lane> roles, units;
};

Lanes lanes_of(const Timeline& timeline) {
  Lanes lanes;
  lanes.roles.push_back(lane_of("producer", timeline, [](const Interval& i) { return i.role == 0; }));
  for (int w = 0; w < timeline.spec.consumer_warpgroups; ++w) {
    const auto only = [w](auto&& wanted) { return [w, wanted](const Interval& i) { return i.role == w + 1 && wanted(i); }; };
    lanes.roles.push_back(lane_of(fmt::format("warpgroup {}: QK", w), timeline, only([](const Interval& i) { return i.activity == Activity::qk; })));
    lanes.roles.push_back(lane_of("PV", timeline, only([](const Interval& i) { return i.activity == Activity::pv; })));
    lanes.roles.push_back(lane_of("softmax, store", timeline, only([](const Interval& i) { return i.activity >= Activity::softmax; })));
  }
  lanes.units.push_back(unit_of("QK or PV in flight", timeline, multiplies));
  lanes.units.push_back(unit_of("some softmax", timeline, exponentiates));
  return lanes;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

std::string with_thousands(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::ptrdiff_t i = std::ssize(digits) - 3; i > 0; i -= 3) digits.insert(static_cast<std::size_t>(i), 1, ',');
  return digits;
}

class Picture {
 public:
  explicit Picture(const DrawOptions& options) : options_(options) {}

  std::string draw(const std::vector<Timeline>& timelines) {
    legend();
    for (const Timeline& timeline : timelines) panel(timeline);
    text(kMargin, y_ + 14, "note", options_.source);
    y_ += 24;
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" font-family=\"Helvetica, Arial, sans-serif\">\n"
               "<style>text{{font-size:11px;fill:#222}}.title{{font-size:14px;font-weight:bold}}.note{{fill:#555}}.label{{text-anchor:end}}"
               ".tick{{text-anchor:middle;fill:#555}}.in{{fill:#fff;font-size:10px;text-anchor:middle}}</style>\n"
               "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
               kWidth, y_) +
           body_ + "</svg>\n";
  }

 private:
  static constexpr int kWidth = 1400, kMargin = 16, kLeft = 150, kRight = 1380, kLane = 15, kGap = 4;

  void legend() {
    int x = kMargin;
    for (const Look& look : kLooks) {
      rectangle(x, y_ + 8, 12, 12, look.colour);
      text(x + 17, y_ + 18, "note", look.legend);
      x += 40 + static_cast<int>(6 * std::string_view(look.legend).size());
    }
    y_ += 30;
  }

  void panel(const Timeline& timeline) {
    const TimelineFigures& figures = timeline.figures;
    text(kMargin, y_ + 16, "title", timeline.name);
    text(kLeft, y_ + 16, "note",
         fmt::format("{}.  {:.0f} cycles a step of {} x {}, the tensor core busy {:.0f} % of them", timeline.text, figures.step_cycles, timeline.spec.block_m(),
                     timeline.spec.block_n, 100 * figures.step_tensor_share));
    y_ += 26;
    const int top = y_;
    const Lanes lanes = lanes_of(timeline);
    const std::size_t grid = body_.size();
    for (const Lane& lane : lanes.roles) draw_lane(lane, true);
    y_ += 4;
    for (const Lane& lane : lanes.units) draw_lane(lane, false);
    std::string lines;
    const std::uint64_t spacing = tick_spacing();
    for (std::uint64_t cycle = (options_.from + spacing - 1) / spacing * spacing; cycle <= options_.from + options_.cycles; cycle += spacing) {
      lines += fmt::format("<path d=\"M{0:.1f} {1}V{2}\" stroke=\"#e6e6e6\"/>\n", x_of(cycle), top, y_);
      text(x_of(cycle), y_ + 12, "tick", with_thousands(cycle));
    }
    body_.insert(grid, lines);  // behind the bars
    text(kMargin, y_ + 12, "note", "cycles");
    y_ += 30;
  }

  void draw_lane(const Lane& lane, bool named) {
    text(kLeft - 8, y_ + 11, "label", lane.label);
    for (const Interval& interval : lane.intervals) {
      if (interval.end < options_.from || interval.begin > options_.from + options_.cycles) continue;
      const bool load = interval.activity == Activity::load_k || interval.activity == Activity::load_v;
      const double begin = x_of(load ? interval.end : interval.begin), end = load ? begin + 3 : x_of(interval.end);
      if (end - begin < 0.3) continue;
      const Look& look = look_of(interval.activity);
      rectangle(begin, y_, end - begin, kLane, look.colour);
      if (!named) continue;
      const std::string name = interval.activity == Activity::store ? look.name : fmt::format("{} {}", look.name, interval.step);
      if (load)
        text(end + 2, y_ + 11, "note", name);
      else if (interval.activity != Activity::stage_wait && end - begin > 7.0 * static_cast<double>(name.size()))
        text((begin + end) / 2, y_ + 11, "in", name);
    }
    y_ += kLane + kGap;
  }

  // Between eight and twenty ticks.
  std::uint64_t tick_spacing() const {
    std::uint64_t spacing = 1;
    for (const std::uint64_t step : {5, 2, 1})
      for (std::uint64_t power = 1; power <= 1'000'000'000; power *= 10)
        if (options_.cycles / (step * power) >= 8 && step * power > spacing) spacing = step * power;
    return spacing;
  }

  double x_of(std::uint64_t cycle) const {
    const double inside = std::clamp((static_cast<double>(cycle) - static_cast<double>(options_.from)) / static_cast<double>(options_.cycles), 0.0, 1.0);
    return kLeft + inside * (kRight - kLeft);
  }

  void rectangle(double x, double y, double width, double height, const char* colour) {
    body_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"{:.0f}\" fill=\"{}\"/>\n", x, y, width, height, colour);
  }
  void text(double x, double y, const char* kind, const std::string& what) {
    body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.0f}\" class=\"{}\">{}</text>\n", x, y, kind, escaped(what));
  }

  const DrawOptions& options_;
  std::string body_;
  int y_ = 0;
};

}  // namespace

std::string draw_svg(const std::vector<Timeline>& timelines, const DrawOptions& options) { return Picture(options).draw(timelines); }

std::string draw_trace(const std::vector<Timeline>& timelines) {
  using nlohmann::json;
  json events = json::array();
  const auto name = [&](const char* what, int process, int thread, const std::string& text) {
    events.push_back({{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", text}}}});
  };
  for (int process = 0; process < std::ssize(timelines); ++process) {
    const Timeline& timeline = timelines[static_cast<std::size_t>(process)];
    name("process_name", process, 0, timeline.name);
    Lanes lanes = lanes_of(timeline);
    std::move(lanes.units.begin(), lanes.units.end(), std::back_inserter(lanes.roles));
    for (int thread = 0; thread < std::ssize(lanes.roles); ++thread) {
      const Lane& lane = lanes.roles[static_cast<std::size_t>(thread)];
      name("thread_name", process, thread, lane.label);
      for (const Interval& interval : lane.intervals)
        events.push_back({{"ph", "X"},
                          {"name", fmt::format("{} {}", look_of(interval.activity).name, interval.step)},
                          {"pid", process},
                          {"tid", thread},
                          {"ts", static_cast<double>(interval.begin) / 1000},
                          {"dur", static_cast<double>(interval.end - interval.begin) / 1000},
                          {"args", {{"tile", interval.tile}, {"step", interval.step}}}});
    }
  }
  return json{{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}}.dump() + "\n";
}

}  // namespace tandem::cli
