#include "trainers/async/async_server.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <utility>

#include "kernels/runtime/errors.h"
#include "kernels/runtime/stopwatch.h"
#include "kernels/tensor/transform.h"

namespace terngrad {
namespace {

constexpr const char* kPushesKey = "async_pushes";
constexpr const char* kAsyncUpdatesKey = "async_updates";

std::vector<std::uint64_t> numbers_of(const std::map<std::string, std::string>& entries, const char* key,
                                      std::size_t count) {
  const auto entry = entries.find(key);
  if (entry == entries.end()) TERNGRAD_THROW(DataError, "[async] the checkpoint has no ", key);
  std::istringstream in(entry->second);
  std::vector<std::uint64_t> numbers(count);
  for (std::uint64_t& number : numbers) in >> number;
  if (!in || fmt::format("{}", fmt::join(numbers, " ")) != entry->second) {
    TERNGRAD_THROW(DataError, "[async] the checkpoint has ", key, " '", entry->second, "', expected ", count,
                   " numbers");
  }
  return numbers;
}

}  // namespace

AsyncServer::AsyncServer(std::shared_ptr<const PushProtocol> protocol, const AsyncServerOptions& options,
                         std::span<float> parameters, Optimizer& optimizer)
    : protocol_(std::move(protocol)),
      options_(options),
      parameters_(parameters),
      optimizer_(optimizer),
      stream_(Device::cpu(), options.num_threads),
      messages_(*protocol_),
      gradient_(zeros<float>(protocol_->layout.flat_elements())),
      pushes_(static_cast<std::size_t>(options.num_workers)),
      pulled_(pushes_.size()) {}

MessageLabel AsyncServer::label_of(const Parcels& message) {
  const MessageLabel label = messages_.read_bare(message, 0);
  if (label.worker >= static_cast<std::uint32_t>(options_.num_workers)) {
    TERNGRAD_THROW(CommunicationError, "[async] a message of worker ", label.worker, " came, there are ",
                   options_.num_workers);
  }
  return label;
}

PushResult AsyncServer::take_push(const Parcels& push, std::uint64_t step, double rate, std::span<float> state) {
  const MessageLabel label = label_of(push);
  const auto worker = static_cast<std::size_t>(label.worker);
  PushResult result;
  result.worker = static_cast<int>(label.worker);
  const std::uint64_t number = pushes_[worker];
  result.note = messages_.read_metadata(push, 0, number, result.worker);
  if (!pulled_[worker] || result.note.version != *pulled_[worker]) {
    TERNGRAD_THROW(CommunicationError, "[async] push ", number, " of worker ", worker, " is for version ",
                   result.note.version, ", expected ",
                   pulled_[worker] ? std::to_string(*pulled_[worker]) : std::string("a pull first"));
  }
  if (!state.empty()) messages_.read_state(push, 2, number, result.worker, state);
  result.staleness = version_ - result.note.version;
  ++pushes_[worker];
  result.is_dropped = options_.max_staleness && result.staleness > *options_.max_staleness;
  if (result.is_dropped) return result;
  auto mark = std::chrono::steady_clock::now();
  decode(push, number, step, result);
  result.decode_seconds = lap_seconds(mark);
  if (result.is_skipped) return result;
  optimizer_.apply(parameters_, gradient_.span(), static_cast<float>(rate), stream_);
  ++version_;
  result.update_seconds = lap_seconds(mark);
  return result;
}

void AsyncServer::decode(const Parcels& push, std::uint64_t number, std::uint64_t step, PushResult& result) {
  messages_.read_gradient(push, 1, number, result.worker, gradient_.span());
  const Layout& layout = protocol_->layout;
  if (options_.scale != 1) scale(gradient_.span(), options_.scale, stream_);
  NonfiniteTensors found;
  for (std::uint32_t i = 0; i < result.note.nonfinite_tensors; ++i) {
    found.add_gradient(static_cast<int>(result.note.first_nonfinite), result.worker, options_.num_workers);
  }
  // Scaling may overflow fp32.
  for (const Segment& segment : layout.segments()) {
    const std::span<float> tensor = gradient_.span().subspan(static_cast<std::size_t>(segment.offset),
                                                             static_cast<std::size_t>(segment.num_elements));
    if (all_finite(tensor, stream_)) continue;
    found.add_gradient(static_cast<int>(&segment - layout.segments().data()), result.worker, options_.num_workers);
    std::ranges::fill(tensor, 0.0f);
  }
  ExchangeReport report;
  found.apply_policy(options_.on_nonfinite, layout, options_.num_workers, step, report);
  result.nonfinite = std::move(report.nonfinite);
  result.is_skipped = report.skipped;
}

void AsyncServer::answer_pull(int worker, std::span<const float> state, Parcels& answer) {
  messages_.add_bare(MessageKind::kPull, num_pushes(worker), worker, answer);
  answer_push(worker, answer);
  if (!state.empty()) messages_.add_state(num_pushes(worker), worker, state, answer, stream_);
}

void AsyncServer::answer_push(int worker, Parcels& answer) {
  messages_.add_parameters(version_, worker, parameters_, answer, stream_);
  pulled_.at(static_cast<std::size_t>(worker)) = version_;
}

void AsyncServer::answer_stop(int worker, std::uint64_t steps_done, Parcels& answer) {
  messages_.add_bare(MessageKind::kStop, steps_done, worker, answer);
}

void AsyncServer::set_pulled(int worker, std::uint64_t version) {
  TERNGRAD_REQUIRE(version <= version_, "[async] version ", version, " is after ", version_, ", the newest");
  pulled_.at(static_cast<std::size_t>(worker)) = version;
}

std::map<std::string, std::string> AsyncServer::state() const {
  return {{kPushesKey, fmt::format("{}", fmt::join(pushes_, " "))}, {kAsyncUpdatesKey, std::to_string(version_)}};
}

void AsyncServer::restore_state(const std::map<std::string, std::string>& entries) {
  std::vector<std::uint64_t> pushes = numbers_of(entries, kPushesKey, pushes_.size());
  version_ = numbers_of(entries, kAsyncUpdatesKey, 1)[0];
  pushes_ = std::move(pushes);
  std::ranges::fill(pulled_, std::nullopt);
}

}  // namespace terngrad
