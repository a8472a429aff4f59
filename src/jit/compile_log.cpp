#include "jit/compile_log.hpp"

#include <algorithm>
#include <charconv>

namespace tandem::jit {
namespace {

// The integer that stands right before `unit`, 0 if there is none.
int number_before(std::string_view line, std::string_view unit) {
  const std::size_t at = line.find(unit);
  if (at == std::string_view::npos || at == 0) return 0;
  std::size_t end = at;
  while (end > 0 && line[end - 1] == ' ') --end;
  std::size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int value = 0;
  std::from_chars(line.data() + begin, line.data() + end, value);
  return value;
}

}  // namespace

CompileReport read_compile_log(std::string_view log) {
  CompileReport report;
  while (!log.empty()) {
    const std::size_t newline = log.find('\n');
    const std::string_view line = log.substr(0, newline);
    log = newline == std::string_view::npos ? std::string_view{} : log.substr(newline + 1);

    report.spill_bytes += number_before(line, "bytes spill stores") + number_before(line, "bytes spill loads");
    report.stack_bytes = std::max(report.stack_bytes, number_before(line, "bytes stack frame"));
    report.registers = std::max(report.registers, number_before(line, "registers"));
    if (const std::size_t code = line.find("(C75"); code != std::string_view::npos) report.advisories.emplace_back(line.substr(code));
  }
  return report;
}

}  // namespace tandem::jit
