#include "terminal.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace tandem::cli {

bool is_terminal(std::FILE* stream) { return ::isatty(::fileno(stream)) == 1; }

std::string paint(Ink ink, std::string_view text) {
  static const bool colours = is_terminal(stdout) && std::getenv("NO_COLOR") == nullptr;
  if (!colours || ink == Ink::plain) return std::string(text);
  const char* code = "0";
  switch (ink) {
    case Ink::plain: break;
    case Ink::bold: code = "1"; break;
    case Ink::dim: code = "2"; break;
    case Ink::good: code = "32"; break;
    case Ink::bad: code = "31"; break;
    case Ink::warn: code = "33"; break;
  }
  return fmt::format("\033[{}m{}\033[0m", code, text);
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033') {
      while (i < text.size() && text[i] != 'm') ++i;
      continue;
    }
    if ((static_cast<unsigned char>(text[i]) & 0xc0u) != 0x80u) ++width;  // not the tail of a UTF-8 character
  }
  return width;
}

std::string bar(double fraction, int width) {
  const int filled = std::clamp(static_cast<int>(std::lround(fraction * width)), 0, width);
  return std::string(static_cast<std::size_t>(filled), '#') + std::string(static_cast<std::size_t>(width - filled), '.');
}

std::string printable(std::string_view text) {
  std::string clean;
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0x80 ? 1 : lead >= 0xc2 && lead < 0xe0 ? 2 : lead >= 0xe0 && lead < 0xf0 ? 3 : lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
    bool valid = length > 0 && i + length <= text.size();
    for (std::size_t j = 1; valid && j < length; ++j) valid = (static_cast<unsigned char>(text[i + j]) & 0xc0u) == 0x80u;
    if (!valid) {
      clean += '?';
      ++i;
    } else if (length == 1) {
      clean += lead == '\n' || lead == '\t' ? ' ' : lead < 0x20 || lead == 0x7f ? '?' : text[i];
      ++i;
    } else {
      clean += text.substr(i, length);
      i += length;
    }
  }
  clean.erase(clean.find_last_not_of(' ') + 1);
  return clean;
}

void print_line(std::string_view text) { fmt::print("{}\n", text); }

}  // namespace tandem::cli
