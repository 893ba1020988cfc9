// Shards of a layout with nearly equal size on the wire, whatever codecs its tensors have.
#pragma once

#include <vector>

#include "compress/plan/codec_plan.h"
#include "kernels/tensor/layout.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// The shards of scatter_reduce. The tensors of each codec are cut into equal shards by themselves, as shards() of
/// kernels/tensor/slice.h does. Bytes per element differ between codecs only, on the uplink (codes) and on the downlink
/// (sums of codes, or floats for codecs that have none), so shards with equally many elements of each codec have
/// equally many bytes in both directions, up to one chunk per codec. If all elements were cut without regard to codecs,
/// the owner of fp32 logits beside ternary layers would get several times the bytes of others.
///
/// Tensors of codecs with a larger grain (CodecTraits::grain_elements) are cut at its multiples only, or not at all.
/// Such a unit goes to the shard in whose equal part of these tensors' elements its first element lies.
///
/// The slices of a shard are in layout order, at most one per tensor, and all shards together cover every element once.
/// With one codec they are those of shards(). A function of the arguments alone, so all ranks compute the same shards;
/// part of the wire format.
/// @throws InvalidArgument if num_shards < 1
std::vector<std::vector<Slice>> shards_by_codec(const Layout& layout, const CodecPlan& plan, int num_shards);

}  // namespace terngrad
