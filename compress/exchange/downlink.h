// Downlink: what the mean goes through on its way back to the workers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compress/exchange/downlink_codec.h"
#include "compress/plan/codec_plan.h"
#include "compress/wire/wire_format.h"
#include "kernels/statistics/statistics.h"

namespace terngrad {

/// Encodes and decodes the downlink of parts of a layout (shards, or everything). Draws use DrawPurpose::kDownlink
/// and worker 0, so they do not depend on who aggregates what.
class Downlink {
 public:
  struct Options {
    DownlinkCodec codec = DownlinkCodec::kFloat32;
    int num_workers = 1;
    std::uint64_t seed = 1;
  };
  /// @param parts  the lists of slices that will be encoded, each with its own workspace
  /// @throws InvalidArgument if codec is sums or ternary and a tensor's scaler is not shared
  Downlink(const Layout& layout, const CodecPlan& plan, const std::vector<std::vector<Slice>>& parts,
           const Options& options);

  /// Whether the mean comes back changed.
  bool is_lossy() const {
    return options_.codec == DownlinkCodec::kBfloat16 || options_.codec == DownlinkCodec::kTernary;
  }
  std::size_t num_parts() const { return parts_.size(); }
  /// Whether max_message_bytes is exact.
  bool has_fixed_size() const;
  /// What a tensor must be aggregated to before encode: integer sums or the mean.
  AggregateUnit unit(int segment) const;

  /// Size of a part's message; exact except for codes of a format whose size depends on them (tmask), where it is the
  /// most.
  std::int64_t max_message_bytes(std::size_t part) const;

  /// Largest |sum| of this part for each scaler (bit patterns of float32), merged into `max`
  /// [plan.num_scalers()]. Needed by ternary only; has to be reduced over all parts before encode.
  void measure(std::size_t part, const TensorTable& aggregated, std::span<std::uint32_t> max, Stream& stream);

  /// Writes the message of a part.
  /// @param aggregated  in the units of `unit`
  /// @param shared      [plan.num_scalers()] the scalers that the step was encoded with
  std::span<const std::uint8_t> encode(std::size_t part, int worker, const TensorTable& aggregated,
                                       std::span<const float> shared, std::span<const std::uint32_t> max,
                                       const MessageContext& context, MessageWriter& writer, Stream& stream);

  /// Writes the mean from a message. @throws CommunicationError if it is not the downlink of `part`
  void decode(std::size_t part, const Message& message, const TensorTable& mean, Stream& stream) const;

 private:
  struct Form {
    std::uint8_t codec;
    std::uint8_t format;
  };
  Form form_of(int segment) const;
  /// Of lanes of sums of a tensor's codes.
  int lane_levels(int segment) const;
  std::int64_t max_bytes(const Slice& slice) const;

  const Layout& layout_;
  const CodecPlan& plan_;
  Options options_;
  struct Part {
    std::vector<Slice> slices;
    std::vector<std::int64_t> first_scaler;  // of each slice, in the list of all scalers
    std::vector<std::int64_t> num_scalers;
    StatisticsPlan runs;  // the pieces of its slices that share a scaler
    std::vector<std::int64_t> run_scaler;
    std::vector<Statistics> statistics;
  };
  std::vector<Part> parts_;
};

}  // namespace terngrad
