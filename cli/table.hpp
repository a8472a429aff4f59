// Aligned text tables.
#pragma once

#include <string>
#include <vector>

namespace tandem::cli {

class Table {
 public:
  // A column whose title starts with '<' is left-aligned; the others hold numbers and are right-aligned.
  explicit Table(std::vector<std::string> titles);

  void add(std::vector<std::string> cells);  // missing cells are empty
  bool empty() const { return rows_.empty(); }
  std::string text() const;  // ends with a newline
  void print() const;

 private:
  struct Column {
    std::string title;
    bool left = false;
  };
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Names and what they stand for, one a line.
class Facts {
 public:
  void add(std::string name, std::string text);
  void print() const;

 private:
  std::vector<std::pair<std::string, std::string>> facts_;
};

}  // namespace tandem::cli
