// Slice: a contiguous range of elements of one segment, the unit of work of the kernels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/tensor/element_type.h"
#include "kernels/tensor/layout.h"

namespace terngrad {

/// Elements per chunk: the leaf size of the statistics' reduction tree, the interval of sign offsets in `tmask`, and
/// the granularity at which segments are cut (shards, buckets). Part of the format.
inline constexpr std::int64_t kChunkElements = 4096;

/// Elements [first, first + count) of segment `segment`, counted from the segment's start.
struct Slice {
  int segment = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend bool operator==(const Slice&, const Slice&) = default;
};

/// One slice per segment.
std::vector<Slice> whole_segments(const Layout& layout);

/// Cuts a layout into `num_shards` lists of slices of nearly equal size that together cover every element once, in
/// order. Cuts fall on multiples of kChunkElements from a segment's start. Shards may be empty.
/// @throws InvalidArgument if num_shards < 1
std::vector<std::vector<Slice>> shards(const Layout& layout, int num_shards);

/// Pointers to the tensors of one gradient (or parameter set), one per segment, all of one element type and aligned to
/// its size. Kernels use it both for a flat buffer and for tensors that live elsewhere.
class TensorTable {
 public:
  TensorTable() = default;
  /// The tensors of a flat buffer of layout.flat_elements() elements.
  TensorTable(const Layout& layout, float* flat);
  /// External tensors, one pointer per segment.
  /// @throws InvalidArgument if the number of pointers differs or one is misaligned
  TensorTable(const Layout& layout, std::span<float* const> tensors);
  /// The same for elements of `type`. Functions that read gradients accept any type and widen elements to float32
  /// first.
  TensorTable(const Layout& layout, ElementType type, void* flat);
  TensorTable(const Layout& layout, ElementType type, std::span<void* const> tensors);

  ElementType type() const { return type_; }
  int num_segments() const { return static_cast<int>(tensors_.size()); }

  /// First element of a tensor or of a slice, of type().
  const void* data(int segment) const { return tensors_[static_cast<std::size_t>(segment)]; }
  const void* data(const Slice& slice) const;

  /// The same as writable float32. @throws InvalidArgument for a table of another type
  float* tensor(int segment) const;
  float* slice(const Slice& slice) const { return tensor(slice.segment) + slice.first; }

  /// The table of some tensors. @param part  layout with the tensors `segments` of this table's layout, in this order
  /// @throws InvalidArgument for a tensor that the table does not have
  TensorTable select(const Layout& part, std::span<const int> segments) const;

 private:
  ElementType type_ = ElementType::kFloat32;
  std::vector<void*> tensors_;
};

/// TensorTable::select of each table.
std::vector<TensorTable> select_tensors(std::span<const TensorTable> tables, const Layout& part,
                                        std::span<const int> segments);

}  // namespace terngrad
