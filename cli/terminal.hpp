// What the terminal shows: colours where there is one, plain text everywhere else.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace tandem::cli {

bool is_terminal(std::FILE* stream);

enum class Ink { plain, bold, dim, good, bad, warn };

// `text` in that ink if stdout is a terminal and NO_COLOR is not set.
std::string paint(Ink ink, std::string_view text);

// Columns that `text` takes on the screen: its characters, colour codes not counted.
std::size_t display_width(std::string_view text);

// A bar of `width` characters, filled to `fraction` (0 to 1).
std::string bar(double fraction, int width);

// The text as one line of valid UTF-8, whatever a file put into it.
std::string printable(std::string_view text);

// The text is the whole output, or a part that ends a line.
void print_line(std::string_view text = {});

}  // namespace tandem::cli
