#include "kernels/tensor/slice.h"

#include <algorithm>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

std::vector<void*> tensors_of(const Layout& layout, ElementType type, void* flat) {
  std::vector<void*> tensors;
  for (const Segment& segment : layout.segments()) tensors.push_back(element_at(flat, type, segment.offset));
  return tensors;
}

}  // namespace

std::vector<Slice> whole_segments(const Layout& layout) {
  std::vector<Slice> slices;
  slices.reserve(static_cast<std::size_t>(layout.num_segments()));
  for (int index = 0; index < layout.num_segments(); ++index) {
    slices.push_back({index, 0, layout.segment(index).num_elements});
  }
  return slices;
}

std::vector<std::vector<Slice>> shards(const Layout& layout, int num_shards) {
  TERNGRAD_REQUIRE(num_shards >= 1, "[shards] num_shards must be at least 1, got ", num_shards);
  // Chunks are numbered through the layout; shard i gets chunks [i * C / n, (i + 1) * C / n).
  std::int64_t num_chunks = 0;
  for (const Segment& segment : layout.segments()) {
    num_chunks += (segment.num_elements + kChunkElements - 1) / kChunkElements;
  }
  std::vector<std::vector<Slice>> result(static_cast<std::size_t>(num_shards));
  for (int shard = 0; shard < num_shards; ++shard) {
    const std::int64_t begin = num_chunks * shard / num_shards;
    const std::int64_t end = num_chunks * (shard + 1) / num_shards;
    std::int64_t chunk = 0;
    for (int index = 0; index < layout.num_segments(); ++index) {
      const std::int64_t n = layout.segment(index).num_elements;
      const std::int64_t segment_chunks = (n + kChunkElements - 1) / kChunkElements;
      const std::int64_t first = std::max(begin, chunk);
      const std::int64_t last = std::min(end, chunk + segment_chunks);
      if (first < last) {
        const std::int64_t first_element = (first - chunk) * kChunkElements;
        const std::int64_t end_element = std::min(n, (last - chunk) * kChunkElements);
        result[static_cast<std::size_t>(shard)].push_back({index, first_element, end_element - first_element});
      }
      chunk += segment_chunks;
    }
  }
  return result;
}

TensorTable::TensorTable(const Layout& layout, float* flat) : TensorTable(layout, ElementType::kFloat32, flat) {}

TensorTable::TensorTable(const Layout& layout, std::span<float* const> tensors)
    : TensorTable(layout, ElementType::kFloat32, std::vector<void*>(tensors.begin(), tensors.end())) {}

TensorTable::TensorTable(const Layout& layout, ElementType type, void* flat)
    : TensorTable(layout, type, tensors_of(layout, type, flat)) {}

TensorTable::TensorTable(const Layout& layout, ElementType type, std::span<void* const> tensors)
    : type_(type), tensors_(tensors.begin(), tensors.end()) {
  TERNGRAD_REQUIRE(num_segments() == layout.num_segments(), "[TensorTable] the layout has ", layout.num_segments(),
                   " tensors, got ", num_segments(), " pointers");
  for (int segment = 0; segment < num_segments(); ++segment) {
    require_aligned_elements(data(segment), type, "TensorTable");
  }
}

const void* TensorTable::data(const Slice& slice) const { return element_at(data(slice.segment), type_, slice.first); }

float* TensorTable::tensor(int segment) const {
  TERNGRAD_REQUIRE(type_ == ElementType::kFloat32, "[TensorTable] elements of type ", element_type_name(type_),
                   " are used where fp32 is needed");
  return static_cast<float*>(tensors_[static_cast<std::size_t>(segment)]);
}

TensorTable TensorTable::select(const Layout& part, std::span<const int> segments) const {
  std::vector<void*> tensors;
  tensors.reserve(segments.size());
  for (const int segment : segments) {
    TERNGRAD_REQUIRE(segment >= 0 && segment < num_segments(), "[TensorTable] tensor ", segment, " of a table of ",
                     num_segments());
    tensors.push_back(tensors_[static_cast<std::size_t>(segment)]);
  }
  return {part, type_, tensors};
}

std::vector<TensorTable> select_tensors(std::span<const TensorTable> tables, const Layout& part,
                                        std::span<const int> segments) {
  std::vector<TensorTable> selected;
  selected.reserve(tables.size());
  for (const TensorTable& table : tables) selected.push_back(table.select(part, segments));
  return selected;
}

}  // namespace terngrad
