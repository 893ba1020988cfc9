// Fixed binary tree over the workers in which their floating-point values are summed, so that a sum has the same bits
// wherever its partial sums are computed (contract B2).
//
// The sum over a range of m > 1 workers is the sum over its first tree_split(m) workers plus the sum over the rest. The
// ranges of this recursion, from all workers down to single ones, are the subtrees.
#pragma once

#include <span>
#include <vector>

namespace terngrad {

/// Split point of a range of m > 1 workers: the largest power of two below m.
int tree_split(int m);

/// Sizes, in workers, of the maximal subtrees within workers [first, first + count) of num_workers, in order. Their
/// sums are all that other ranks need from these workers; there are at most about 2 log2(num_workers) of them.
/// @throws InvalidArgument unless 0 <= first, 0 <= count and first + count <= num_workers
std::vector<int> subtrees_within(int num_workers, int first, int count);

/// True if consecutive ranges with these numbers of workers are subtrees that together make up the tree.
bool are_subtrees(std::span<const int> workers);

}  // namespace terngrad
