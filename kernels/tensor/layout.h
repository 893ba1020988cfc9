// Layout: names, shapes and offsets of the tensors of one model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace terngrad {

/// One tensor of a model: a segment of the flat parameter and gradient buffers.
struct Segment {
  std::string name;                 // e.g. "conv1/weights"
  std::vector<std::int64_t> shape;  // dense, row-major
  bool is_logits = false;           // weights or biases of the last classification layer
  std::int64_t num_elements = 0;    // product of shape
  std::int64_t offset = 0;          // first element in the flat buffer
  std::int64_t draw_offset = 0;     // first draw index: running sum of sizes, each rounded up to kDrawAlignment
};

/// Draw counts of tensors are rounded up to this multiple, so that a Philox block never spans two tensors and draw
/// offsets do not depend on how tensors lie in memory.
inline constexpr std::int64_t kDrawAlignment = 64;

/// Tensors begin at multiples of this many elements in a flat buffer (a 64-byte cache line).
inline constexpr std::int64_t kFlatAlignment = 16;

/// The ordered tensors of a model. Parameters, gradients and optimizer slots each lie in one flat float32 buffer of
/// `flat_elements()` elements. Tensors held elsewhere use the same layout with a table of pointers (TensorTable).
/// Elements between tensors are padding: zero, and never read by kernels that work on segments.
class Layout {
 public:
  /// Appends a tensor and returns its index.
  /// @throws InvalidArgument for a repeated or empty name, a negative dimension, or more than 2^50 elements in total
  /// (the number of draws in a random stream)
  int add(std::string name, std::vector<std::int64_t> shape, bool is_logits = false);

  int num_segments() const { return static_cast<int>(segments_.size()); }
  const Segment& segment(int index) const { return segments_.at(static_cast<std::size_t>(index)); }
  std::span<const Segment> segments() const { return segments_; }
  /// Index of the tensor called `name`, or -1.
  int find(const std::string& name) const;

  /// Selects tensors, in the given order. Offsets, draw offsets and the lengths of flat buffers and draws are those of
  /// this layout, so a tensor's random draws do not depend on the other selected tensors.
  /// @throws InvalidArgument for an index out of range or given twice
  Layout select(std::span<const int> segments) const;

  /// The same tensors with new shapes of at most as many elements. Offsets, draw offsets and the lengths of flat
  /// buffers and draws are those of this layout.
  /// @param shapes  one per tensor
  /// @throws InvalidArgument for a wrong number of shapes, a negative dimension, or more elements than a tensor has
  Layout reshaped(std::span<const std::vector<std::int64_t>> shapes) const;

  /// Sum of the tensors' sizes: the number of parameters.
  std::int64_t num_elements() const { return num_elements_; }
  /// Length of a flat buffer, padding between tensors included; a multiple of kFlatAlignment.
  std::int64_t flat_elements() const { return flat_elements_; }

  /// 64-bit FNV-1a hash of names, shapes and is_logits in order; for a selection, of draw offsets too. Ranks, messages
  /// and checkpoints compare it.
  std::uint64_t fingerprint() const;

 private:
  std::vector<Segment> segments_;
  std::int64_t num_elements_ = 0;
  std::int64_t flat_elements_ = 0;
  std::int64_t num_draws_ = 0;  // one past the last used draw index
  bool is_selection_ = false;
};

/// Incremental 64-bit FNV-1a over bytes; integers are hashed as little-endian.
class Fingerprint {
 public:
  Fingerprint& add(std::string_view text);
  Fingerprint& add(std::uint64_t value);
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ull;
};

}  // namespace terngrad
