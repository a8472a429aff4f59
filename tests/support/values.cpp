#include "support/values.hpp"

namespace tandem::testing {
namespace {

double draw(ValueKind kind, Random& random) {
  switch (kind) {
    case ValueKind::normal: break;
    case ValueKind::outliers: return random.normal() + (random.chance(0.001) ? 10.0 * random.normal() : 0.0);
    case ValueKind::wide: return 3.0 * random.normal();
    case ValueKind::tiny: return 1e-3 * random.normal();
  }
  return random.normal();
}

}  // namespace

std::string_view name_of(ValueKind kind) {
  switch (kind) {
    case ValueKind::normal: return "normal";
    case ValueKind::outliers: return "outliers";
    case ValueKind::wide: return "wide";
    case ValueKind::tiny: return "tiny";
  }
  return "?";
}

Values make_values(ValueKind kind, const Shape& shape, Random& random) {
  Values values(shape);
  for (float& value : values.data) value = static_cast<float>(draw(kind, random));
  return values;
}

}  // namespace tandem::testing
