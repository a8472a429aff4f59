#include "table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "terminal.hpp"

namespace tandem::cli {
namespace {

std::string padded(const std::string& cell, std::size_t width, bool left) {
  const std::size_t own = display_width(cell);
  const std::string gap(width > own ? width - own : 0, ' ');
  return left ? cell + gap : gap + cell;
}

}  // namespace

Table::Table(std::vector<std::string> titles) {
  for (std::string& title : titles) {
    const bool left = title.starts_with('<');
    columns_.push_back({left ? title.substr(1) : std::move(title), left});
  }
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = display_width(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, display_width(row[c]));
    widths.push_back(width);
  }
  const auto line = [&](const auto& cell_of) {
    std::string text;
    for (std::size_t c = 0; c < columns_.size(); ++c) text += (c == 0 ? "" : "  ") + padded(cell_of(c), widths[c], columns_[c].left);
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  std::string text = line([&](std::size_t c) { return paint(Ink::bold, columns_[c].title); });
  for (const auto& row : rows_) text += line([&](std::size_t c) { return row[c]; });
  return text;
}

void Table::print() const { fmt::print("{}", text()); }

void Facts::add(std::string name, std::string text) { facts_.emplace_back(std::move(name), std::move(text)); }

void Facts::print() const {
  std::size_t width = 0;
  for (const auto& [name, text] : facts_) width = std::max(width, display_width(name));
  for (const auto& [name, text] : facts_) fmt::print("{}  {}\n", padded(paint(Ink::bold, name), width, true), text);
}

}  // namespace tandem::cli
