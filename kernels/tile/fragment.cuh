// Which element a thread of a warpgroup holds where.
// Accumulator of m64nN: element i of thread t stands in row 16 (t / 32) + (t % 32) / 4 + 8 ((i / 2) % 2), column 8 (i / 4) + 2 (t % 4) + i % 2:
// a thread holds parts of two rows, and the four threads of a quad share them.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::tile {

constexpr int kRowsOfThread = 2;

// Index of the e-th element that a thread holds of its row `row` (0 or 1).
constexpr int accumulator_index(int row, int e) { return (e / 2) * 4 + row * 2 + e % 2; }

// Column of that element, less the 2 (t % 4) of the thread.
constexpr int accumulator_column(int e) { return (e / 2) * 8 + e % 2; }

// The A operand of the next GEMM has the accumulator's layout: pair `pair` (elements 2 pair and 2 pair + 1 of a row) is word
// operand_word(row, pair) of the fragment for k-step pair / 2.
constexpr int operand_word(int row, int pair) { return (pair % 2) * 2 + row; }

}  // namespace tandem::tile
