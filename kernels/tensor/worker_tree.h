// The tree in which floating-point numbers of workers are added, so that a sum has the same bits wherever its parts are
// computed (contract B2).
//
// The sum over a range of m > 1 workers is that over its first tree_split(m) plus that over the others; ranges that
// appear on the way from all workers down to single ones are the subtrees.
#pragma once

#include <span>
#include <vector>

namespace terngrad {

/// Where a range of m > 1 workers splits: the largest power of two below m.
int tree_split(int m);

/// The maximal subtrees within workers [first, first + count) of num_workers, in order: how many workers each has.
/// Their sums are all that others need of these workers; there are at most about 2 log2(num_workers) of them.
/// @throws InvalidArgument unless 0 <= first, 0 <= count and first + count <= num_workers
std::vector<int> subtrees_within(int num_workers, int first, int count);

/// Whether consecutive ranges of that many workers are subtrees that together make up the tree.
bool are_subtrees(std::span<const int> workers);

}  // namespace terngrad
