#include "compress/exchange_probe.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "compress/codec_shares.h"
#include "compress/gathered_numbers.h"
#include "compress/return_leg.h"
#include "compress/wire_format.h"
#include "compress/worker_encoder.h"
#include "kernels/buffer.h"
#include "kernels/errors.h"
#include "kernels/parallel.h"
#include "kernels/transform.h"

namespace terngrad {
namespace {

using Bytes = std::span<const std::uint8_t>;

template <class Work>
double seconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

CodecPlanOptions with_workers(CodecPlanOptions options, int num_workers) {
  options.codec_options.num_workers = num_workers;
  return options;
}

std::vector<std::int64_t> sizes_of(const std::vector<Bytes>& messages) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(messages.size());
  for (const Bytes& message : messages) sizes.push_back(static_cast<std::int64_t>(message.size()));
  return sizes;
}

/// A process of a run, with messages of all its peers at hand.
class Process {
 public:
  Process(const Layout& layout, std::span<const float> gradient, const ProbeOptions& options);

  /// Seconds of the parts of one step.
  double encode();
  double check();
  double decode();
  double encode_mean();
  double check_mean();

  bool scatters() const { return exchange_.algorithm == ExchangeAlgorithm::kScatterReduce; }
  MessageSizes sizes();

 private:
  void encode_parts(int worker, std::size_t num_parts, Stream& stream);
  void aggregate(std::size_t part);

  const Layout& layout_;
  CompressedAllReduceOptions exchange_;
  ExchangeWorld world_;
  CodecPlan plan_;
  Stream stream_;
  MessageContext context_{.run_id = 1, .fingerprint = 1, .step = 1};
  TensorTable gradient_;
  std::vector<std::vector<Slice>> parts_;  // what messages hold: everything, or the shares
  std::size_t num_own_parts_ = 1;          // of these, how many this process aggregates
  ReturnLeg return_leg_;
  std::vector<WorkerEncoder> encoders_;              // [worker]
  std::vector<std::vector<MessageWriter>> writers_;  // [worker][part]
  std::vector<std::vector<Bytes>> messages_;         // [worker][part]
  std::vector<Message> read_;                        // [worker * num_own_parts + part]
  std::vector<float> shared_;
  std::vector<std::uint32_t> greatest_;
  Buffer<float> mean_values_;
  TensorTable mean_;
  std::vector<MessageWriter> mean_writers_;  // [part]
  std::vector<Bytes> mean_messages_;         // [part]
  std::vector<Message> read_means_;          // [part]
};

Process::Process(const Layout& layout, std::span<const float> gradient, const ProbeOptions& options)
    : layout_(layout),
      exchange_(options.exchange),
      world_(options.world),
      plan_(layout, with_workers(options.exchange.codecs, options.world.num_workers)),
      stream_(Device::cpu(), options.exchange.num_threads),
      // Tables are of what may be written; encoders read only.
      gradient_(layout, const_cast<float*>(gradient.data())),
      parts_(scatters() ? shares_by_codec(layout, plan_, world_.num_workers)
                        : std::vector<std::vector<Slice>>{whole_segments(layout)}),
      num_own_parts_(scatters() ? static_cast<std::size_t>(world_.num_local_workers()) : 1),
      return_leg_(layout, plan_, parts_, {ReturnCodec::kFloat32, world_.num_workers, exchange_.seed}),
      shared_(static_cast<std::size_t>(plan_.num_scalers())),
      greatest_(shared_.size()),
      mean_values_(layout.flat_elements()),
      mean_(layout, mean_values_.data()),
      mean_writers_(parts_.size()),
      mean_messages_(parts_.size()),
      read_means_(parts_.size()) {
  std::ranges::fill(mean_values_.span(), 0.0f);
  const auto num_workers = static_cast<std::size_t>(world_.num_workers);
  writers_.resize(num_workers);
  messages_.resize(num_workers);
  read_.resize(num_workers * num_own_parts_);
  encoders_.reserve(num_workers);
  for (int worker = 0; worker < world_.num_workers; ++worker) encoders_.emplace_back(layout_, plan_, worker);
  for (WorkerEncoder& encoder : encoders_) encoder.measure(gradient_, exchange_.seed, context_.step, stream_);
  // All have the same gradient, so what they share is what each has.
  std::ranges::copy(encoders_[0].local_scalers(), shared_.begin());
  for (int worker = 0; worker < world_.num_workers; ++worker) encode_parts(worker, num_own_parts_, stream_);
}

void Process::encode_parts(int worker, std::size_t num_parts, Stream& stream) {
  const auto w = static_cast<std::size_t>(worker);
  writers_[w].resize(std::max(writers_[w].size(), num_parts));
  messages_[w].resize(writers_[w].size());
  for (std::size_t part = 0; part < num_parts; ++part) {
    const WorkerEncoder::GradientPart what{parts_[part], shared_, PayloadForm::kNatural, exchange_.seed};
    messages_[w][part] = encoders_[w].gradient_message(gradient_, what, context_, writers_[w][part], stream);
  }
}

double Process::encode() {
  const int num_local = world_.num_local_workers();
  const int num_threads = stream_.num_threads();
  const auto encode_one = [&](int worker, Stream& stream) {
    encoders_[static_cast<std::size_t>(worker)].measure(gradient_, exchange_.seed, context_.step, stream);
    encode_parts(worker, parts_.size(), stream);
  };
  // As the exchange does: one worker after the other, or with many of them side by side. Then as many as run at once
  // stand for all.
  if (num_local < num_threads) return num_local * seconds_of([&] { encode_one(0, stream_); });
  const int rounds = (num_local + num_threads - 1) / num_threads;
  return rounds * seconds_of([&] {
           parallel_for(num_threads, num_threads, 1, [&](std::int64_t begin, std::int64_t end) {
             Stream one(Device::cpu(), 1);
             for (std::int64_t worker = begin; worker < end; ++worker) encode_one(static_cast<int>(worker), one);
           });
         });
}

double Process::check() {
  return seconds_of([&] {
    const auto count = static_cast<std::int64_t>(read_.size());
    parallel_for(stream_.num_threads(), count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        read_message(messages_[i / num_own_parts_][i % num_own_parts_], MessageKind::kGradient, context_, layout_,
                     read_[i]);
        for (const Message::Record& record : read_[i].records) {
          plan_.codec_of(record.encoded.slice.segment).check(record.encoded);
        }
      }
    });
  });
}

void Process::aggregate(std::size_t part) {
  const std::vector<Slice>& slices = parts_[part];
  const std::size_t num_workers = encoders_.size();
  std::vector<EncodedSlice> by_slice(slices.size() * num_workers);
  for (std::size_t r = 0; r < slices.size(); ++r) {
    for (std::size_t w = 0; w < num_workers; ++w) {
      by_slice[r * num_workers + w] = read_[w * num_own_parts_ + part].records[r].encoded;
    }
  }
  for (std::size_t group = 0; group < plan_.groups().size(); ++group) {
    std::vector<AggregateJob> jobs;
    for (std::size_t r = 0; r < slices.size(); ++r) {
      if (plan_.group_of(slices[r].segment) != static_cast<int>(group) || slices[r].count == 0) continue;
      jobs.push_back({slices[r], {by_slice.data() + r * num_workers, num_workers}, mean_.slice(slices[r])});
    }
    if (!jobs.empty()) plan_.groups()[group].codec->aggregate(jobs, AggregateUnit::kMean, stream_);
  }
}

double Process::decode() {
  return seconds_of([&] {
    for (std::size_t part = 0; part < num_own_parts_; ++part) aggregate(part);
    if (scatters()) {
      for (std::size_t part = 0; part < parts_.size(); ++part) {
        return_leg_.decode(part, read_means_[part], mean_, stream_);
      }
    }
    // Means of other codecs may overflow, and are looked at.
    for (int segment = 0; segment < layout_.num_segments(); ++segment) {
      if (plan_.codec_of(segment).traits().summable) continue;
      const auto count = static_cast<std::size_t>(layout_.segment(segment).num_elements);
      TERNGRAD_REQUIRE(all_finite({mean_.tensor(segment), count}, stream_), "[probe_exchange] the mean is not finite");
    }
  });
}

double Process::encode_mean() {
  const auto encode_part = [&](std::size_t part) {
    mean_messages_[part] = return_leg_.encode(part, static_cast<int>(part), mean_, shared_, greatest_, context_,
                                              mean_writers_[part], stream_);
  };
  if (!scatters()) return 0;
  for (std::size_t part = num_own_parts_; part < parts_.size(); ++part) {
    if (mean_messages_[part].empty()) encode_part(part);  // its owner's work
  }
  return seconds_of([&] {
    for (std::size_t part = 0; part < num_own_parts_; ++part) encode_part(part);
  });
}

double Process::check_mean() {
  if (!scatters()) return 0;
  return seconds_of([&] {
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      read_message(mean_messages_[part], MessageKind::kMean, context_, layout_, read_means_[part]);
    }
  });
}

MessageSizes Process::sizes() {
  MessageWriter writer;
  MessageSizes sizes;
  sizes.scalers = static_cast<std::int64_t>(encoders_[0].scalers_message(context_, writer).size());
  if (scatters()) {
    sizes.shares = sizes_of(messages_[0]);
    sizes.mean_shares = sizes_of(mean_messages_);
  } else {
    sizes.gradient = static_cast<std::int64_t>(messages_[0][0].size());
  }
  return sizes;
}

}  // namespace

ExchangeCost probe_exchange(const Layout& layout, std::span<const float> gradient, const ProbeOptions& options) {
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(gradient.size()) == layout.flat_elements(), "[probe_exchange] layout has ",
                   layout.flat_elements(), " elements, the gradient ", gradient.size());
  TERNGRAD_REQUIRE(options.repetitions >= 1, "[probe_exchange] repetitions must be at least 1, got ",
                   options.repetitions);
  TERNGRAD_REQUIRE(options.exchange.return_codec == ReturnCodec::kFloat32,
                   "[probe_exchange] return codec must be fp32, got ", to_string(options.exchange.return_codec));
  ExchangeCost cost{.codec = options.codec, .exchange = to_string(options.exchange.algorithm)};
  // Refuses what it does not know, before any work.
  const std::vector<std::int64_t> nothing(static_cast<std::size_t>(std::max(options.world.num_workers, 1)));
  wire_volume(options.exchange.algorithm, options.world, {.shares = nothing, .mean_shares = nothing});
  Process process(layout, gradient, options);
  std::vector<double> encode;
  std::vector<double> check;
  std::vector<double> decode;
  for (int i = 0; i <= options.repetitions; ++i) {
    const double encode_seconds = process.encode() + process.encode_mean();
    const double check_seconds = process.check() + process.check_mean();
    const double decode_seconds = process.decode();
    if (i == 0) continue;
    encode.push_back(encode_seconds);
    check.push_back(check_seconds);
    decode.push_back(decode_seconds);
  }
  cost.encode_seconds = median(encode);
  cost.check_seconds = median(check);
  cost.decode_seconds = median(decode);
  cost.wire = wire_volume(options.exchange.algorithm, options.world, process.sizes());
  return cost;
}

ExchangeCost probe_on_all_ranks(Communicator& communicator, const Layout& layout, std::span<const float> gradient,
                                const ProbeOptions& options) {
  communicator.barrier();
  ExchangeCost cost = probe_exchange(layout, gradient, options);
  const std::array own = {cost.encode_seconds, cost.check_seconds, cost.decode_seconds};
  const std::vector<double> slowest = greatest_over_ranks(communicator, own);
  cost.encode_seconds = slowest[0];
  cost.check_seconds = slowest[1];
  cost.decode_seconds = slowest[2];
  return cost;
}

ExchangeAlgorithm algorithm_in_use(const Layout& layout, int num_workers, const CompressedAllReduceOptions& options) {
  return CompressedAllReduce(layout, make_worker_group(num_workers, make_self_communicator()), options).algorithm();
}

}  // namespace terngrad
