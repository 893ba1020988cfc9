#include "kernels/tensor/worker_tree.h"

#include <bit>
#include <cstddef>
#include <numeric>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// Appends the maximal subtrees of the tree over [begin, end) that lie within [first, last).
void append_subtrees(int begin, int end, int first, int last, std::vector<int>& found) {
  if (end <= first || last <= begin) return;
  if (first <= begin && end <= last) return found.push_back(end - begin);
  const int middle = begin + tree_split(end - begin);
  append_subtrees(begin, middle, first, last, found);
  append_subtrees(middle, end, first, last, found);
}

/// Removes from the front of `workers` subtree sizes that make up a tree over m workers. @returns false if they do not
bool take_tree(int m, std::span<const int>& workers) {
  if (workers.empty() || m < 1) return false;
  if (workers[0] == m) {
    workers = workers.subspan(1);
    return true;
  }
  if (m == 1) return false;
  const int left = tree_split(m);
  return take_tree(left, workers) && take_tree(m - left, workers);
}

}  // namespace

int tree_split(int m) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(m - 1))); }

std::vector<int> subtrees_within(int num_workers, int first, int count) {
  TERNGRAD_REQUIRE(first >= 0 && count >= 0 && count <= num_workers - first, "[subtrees_within] workers ", first, " + ",
                   count, " are not among ", num_workers);
  std::vector<int> found;
  if (count > 0) append_subtrees(0, num_workers, first, first + count, found);
  return found;
}

bool are_subtrees(std::span<const int> workers) {
  return take_tree(std::accumulate(workers.begin(), workers.end(), 0), workers) && workers.empty();
}

}  // namespace terngrad
