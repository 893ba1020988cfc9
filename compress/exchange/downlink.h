// Downlink: what the mean goes through on its way back to the workers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compress/exchange/downlink_forms.h"
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
  /// @throws InvalidArgument as DownlinkForms does
  Downlink(const Layout& layout, const CodecPlan& plan, const std::vector<std::vector<Slice>>& parts,
           const Options& options);

  const DownlinkForms& forms() const { return forms_; }
  std::size_t num_parts() const { return parts_.size(); }

  /// Size of a part's message; exact where forms() have a fixed size, else the most.
  std::int64_t max_message_bytes(std::size_t part) const;

  /// Largest |sum| of this part for each scaler (bit patterns of float32), merged into `max`
  /// [plan.num_scalers()]. Needed by ternary only; has to be reduced over all parts before encode.
  void measure(std::size_t part, const TensorTable& aggregated, std::span<std::uint32_t> max, Stream& stream);

  /// Writes the message of a part.
  /// @param aggregated  in the units of forms()
  /// @param shared      [plan.num_scalers()] the scalers that the step was encoded with
  std::span<const std::uint8_t> encode(std::size_t part, int worker, const TensorTable& aggregated,
                                       std::span<const float> shared, std::span<const std::uint32_t> max,
                                       const MessageContext& context, MessageWriter& writer, Stream& stream);

  /// Writes the mean from a message. @throws CommunicationError if it is not the downlink of `part`
  void decode(std::size_t part, const Message& message, const TensorTable& mean, Stream& stream) const;

 private:
  /// Of a record: the wire id of a codec, and its format.
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
    std::vector<std::int64_t> first_scaler;  // of each slice, in the list of all scalers
    std::vector<std::int64_t> num_scalers;
    StatisticsPlan runs;  // the pieces of its slices that share a scaler
    std::vector<std::int64_t> run_scaler;
    std::vector<Statistics> statistics;
  };
  std::vector<Part> parts_;
};

}  // namespace terngrad
