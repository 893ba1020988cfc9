// Timed exchanges of gradients between the ranks of a group.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/cost/exchange_cost.h"
#include "compress/exchange/all_reduce_options.h"
#include "kernels/runtime/buffer.h"
#include "kernels/tensor/layout.h"

namespace terngrad::bench {

/// Medians over the repetitions, of one rank. Parts are those of ExchangeReport.
struct ExchangeTimes {
  double measure_seconds = 0;
  double encode_seconds = 0;
  double wire_seconds = 0;
  double decode_seconds = 0;
  double total_seconds = 0;  // from the moment at which all ranks are ready to the mean
  // That this process exchanges with others (MeteredCommunicator), of its last exchange: all are alike.
  double sent_bytes = 0;
  double received_bytes = 0;

  /// Bits per second on the busier direction while messages were on their way; 0 where none were.
  double bits_per_second() const;
};

/// One codec and way to travel.
struct ExchangeResult {
  std::string codec;
  std::string exchange = word_of(ExchangeAlgorithm::kAllGather);  // auto resolved; or kVendorExchange
  std::vector<ExchangeTimes> ranks;                               // of each the medians
  std::vector<ExchangeTimes> samples;  // of each repetition the largest of each number over ranks
  std::optional<ExchangeCost> predicted;

  /// The medians of `samples`: a step waits for the rank that is the slowest in it, as ExchangeCost's samples do.
  ExchangeTimes slowest() const;
};

/// Tensors, workers and processes of a measured exchange.
struct ExchangeSubject {
  Layout layout;
  WorkerGroup workers;
  std::vector<Buffer<float>> gradients;  // of the local workers: sample gradients, different for each
  int num_threads = 1;
};
ExchangeSubject make_exchange_subject(Layout layout, WorkerGroup workers, int num_threads);

/// Numbers of untimed and timed steps.
struct ExchangeRepetitions {
  int warm_up = 1;
  int repetitions = 5;
};

/// Runs the exchanges; a collective call. All ranks get the same result.
/// @param codec    its name in the result
/// @param options  its number of threads is the subject's
/// @throws CommunicationError, also if the mean has not the same bits on all ranks
ExchangeResult run_exchange(ExchangeSubject& subject, const std::string& codec, CompressedAllReduceOptions options,
                            const ExchangeRepetitions& repetitions);

/// The same of the transport library's own all-reduce (compress/exchange/vendor_round.h), whose means are not
/// compared: its order of additions may differ between ranks.
/// @param codec  of vendor_codec_names(): the type that is added
ExchangeResult run_vendor(ExchangeSubject& subject, const std::string& codec, const ExchangeRepetitions& repetitions);

/// The cost of the same exchange as run_exchange by probe_exchange, the slowest rank's; a collective call.
ExchangeCost predict_exchange(ExchangeSubject& subject, const std::string& codec, CompressedAllReduceOptions options,
                              int repetitions);

}  // namespace terngrad::bench
