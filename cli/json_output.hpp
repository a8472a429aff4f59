// Output for machines.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

namespace tandem::cli {

using Json = nlohmann::ordered_json;  // keys stay in the order in which they were written

inline void print_json(const Json& json) { fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace)); }

}  // namespace tandem::cli
