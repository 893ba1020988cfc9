// Downlink: encoding of the aggregated mean for its way back to the workers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compress/exchange/downlink_forms.h"
#include "compress/plan/codec_plan.h"
#include "compress/wire/wire_format.h"
#include "kernels/statistics/statistics.h"

namespace terngrad {

/// Encodes and decodes the mean of parts of a layout (shards, or everything). Draws use DrawPurpose::kDownlink and
/// worker 0, so they do not depend on which rank aggregates which part.
class Downlink {
 public:
  struct Options {
    DownlinkCodec codec = DownlinkCodec::kFloat32;
    int num_workers = 1;
    std::uint64_t seed = 1;
  };
  /// @param parts  lists of slices to encode, each with its own workspace
  /// @throws InvalidArgument as DownlinkForms does
  Downlink(const Layout& layout, const CodecPlan& plan, const std::vector<std::vector<Slice>>& parts,
           const Options& options);

  const DownlinkForms& forms() const { return forms_; }
  std::size_t num_parts() const { return parts_.size(); }

  /// Size of a part's message: exact if forms() has a fixed size, else an upper bound.
  std::int64_t max_message_bytes(std::size_t part) const;

  /// Merges the largest |sum of codes| of this part for each scaler, as float32 bit patterns, into `max`
  /// [plan.num_scalers()]. Needed by downlink codec ternary only; `max` must be reduced over all parts before encode.
  void measure(std::size_t part, const TensorTable& aggregated, std::span<std::uint32_t> max, Stream& stream);

  /// Writes the message of a part.
  /// @param aggregated  in the units of forms()
  /// @param shared      [plan.num_scalers()] shared scalers of the step
  std::span<const std::uint8_t> encode(std::size_t part, int worker, const TensorTable& aggregated,
                                       std::span<const float> shared, std::span<const std::uint32_t> max,
                                       const MessageContext& context, MessageWriter& writer, Stream& stream);

  /// Writes the mean from a message. @throws CommunicationError if it is not a downlink message of `part`
  void decode(std::size_t part, const Message& message, const TensorTable& mean, Stream& stream) const;

 private:
  /// Codec and format fields of a message record.
  struct RecordForm {
    std::uint8_t codec;
    std::uint8_t format;
  };
  RecordForm record_form(int segment) const;

  const Layout& layout_;
  const CodecPlan& plan_;
  DownlinkForms forms_;
  std::uint64_t seed_;
  struct Part {
    std::vector<Slice> slices;
    std::vector<std::int64_t> first_scaler;  // one per slice: index in the list of all scalers
    std::vector<std::int64_t> num_scalers;
    StatisticsPlan runs;  // runs of elements that share a scaler
    std::vector<std::int64_t> run_scaler;
    std::vector<Statistics> statistics;
  };
  std::vector<Part> parts_;
};

}  // namespace terngrad
