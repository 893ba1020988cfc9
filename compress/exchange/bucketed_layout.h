// BucketedLayout: the tensors of a layout and their codecs, split into buckets.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "compress/exchange/bucket_plan.h"
#include "compress/plan/codec_plan.h"
#include "compress/route/exchange_algorithm.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// Layout, plan and algorithm of each bucket of an exchange. Tensors keep their codecs and random draws; a single
/// bucket has the layout and plan of all tensors unchanged.
class BucketedLayout {
 public:
  /// @param codecs  options for all tensors; its num_workers is ignored
  /// @throws InvalidArgument for codecs that CodecPlan refuses or buckets that check_buckets refuses; for several
  /// buckets with a codec that needs all tensors at once (CodecTraits::per_tensor)
  BucketedLayout(const Layout& layout, CodecPlanOptions codecs, int num_workers, Buckets buckets);

  /// Layout of all tensors.
  const Layout& layout() const { return layout_; }
  const CodecPlan& plan() const { return plan_; }

  const Buckets& buckets() const { return buckets_; }
  std::size_t num_buckets() const { return buckets_.size(); }
  const Layout& layout_of(std::size_t bucket) const { return layouts_.at(bucket); }
  CodecPlan plan_of(std::size_t bucket) const;
  /// Algorithm that a bucket uses if `asked` is requested (algorithm_of_part).
  ExchangeAlgorithm algorithm_of(std::size_t bucket, ExchangeAlgorithm asked) const;
  /// The bucket's tensors, taken from a table of all tensors.
  TensorTable select(std::size_t bucket, const TensorTable& whole) const;
  std::vector<TensorTable> select(std::size_t bucket, std::span<const TensorTable> whole) const;

  /// Bucket of a tensor, and its index in the bucket.
  struct Place {
    std::size_t bucket = 0;
    int segment = 0;  // in the bucket's layout
  };
  /// Position of a tensor. @throws InvalidArgument if there is no such tensor
  Place place_of(int segment) const;

 private:
  Layout layout_;
  CodecPlan plan_;
  Buckets buckets_;
  std::vector<Layout> layouts_;  // one per bucket
  std::vector<Place> places_;    // one per tensor of the layout
};

}  // namespace terngrad
