// Shards of a layout that are of nearly equal size on the wire, whatever codecs its tensors have.
#pragma once

#include <vector>

#include "compress/plan/codec_plan.h"
#include "kernels/tensor/layout.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// The shards of scatter_reduce: those of shards() of kernels/tensor/slice.h, of the tensors of each codec by
/// themselves. Bytes per element differ between codecs only, there (codes) and back (sums of codes, or floats where
/// there are none), so shards that have as many elements of each codec have as many bytes in both directions: the
/// difference is a chunk for each codec at most. With shards of equal elements alone, the owner of logits that travel
/// as fp32 beside ternary layers gets several times the bytes of others.
///
/// Tensors of codecs with a larger grain (CodecTraits::grain_elements) are cut at its multiples only, or not at all:
/// each such unit goes to the shard in whose equal part of the elements of these tensors its first element lies.
///
/// A shard's slices are in order of the layout, one of a tensor at most. All shards together cover every element once.
/// With one codec they are those of shards(). A function of its arguments alone, so all ranks have the same; part of
/// the wire format.
/// @throws InvalidArgument if num_shards < 1
std::vector<std::vector<Slice>> shards_by_codec(const Layout& layout, const CodecPlan& plan, int num_shards);

}  // namespace terngrad
