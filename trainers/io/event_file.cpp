#include "trainers/io/event_file.h"

#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

#include "datasets/formats/tfrecord.h"
#include "kernels/runtime/errors.h"
#include "trainers/io/tensorboard.pb.h"

namespace terngrad {
namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";

/// The seconds in the name of an event file, 0 for other names.
std::uint64_t seconds_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return 0;
  std::uint64_t seconds = 0;
  for (const char digit : name.substr(kPrefix.size())) {
    if (digit < '0' || digit > '9') break;
    seconds = seconds * 10 + static_cast<std::uint64_t>(digit - '0');
  }
  return seconds;
}

std::string new_name(const Folder& folder, double now) {
  // Keeps the order of names for two starts within a second, and after the clock was set back.
  auto seconds = static_cast<std::uint64_t>(std::max(now, 0.0));
  for (const std::string& name : folder.names()) seconds = std::max(seconds, seconds_of(name) + 1);
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%010llu", static_cast<unsigned long long>(seconds));
  struct utsname system = {};
  ::uname(&system);
  return std::string(kPrefix) + digits + "." + system.nodename + "." + std::to_string(::getpid());
}

tensorboard::Event event_at(double wall_time, std::uint64_t step) {
  tensorboard::Event event;
  event.set_wall_time(wall_time);
  event.set_step(static_cast<std::int64_t>(step));
  return event;
}

}  // namespace

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

EventFile::EventFile(const Folder& folder, std::function<double()> clock, OnWriteError on_error)
    : clock_(std::move(clock)), file_(folder, new_name(folder, clock_()), O_EXCL, on_error) {
  tensorboard::Event event = event_at(clock_(), 0);
  event.set_file_version("brain.Event:2");
  write(event.SerializeAsString());
}

void EventFile::purge_from(std::uint64_t step) {
  tensorboard::Event event = event_at(clock_(), step);
  event.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  write(event.SerializeAsString());
}

void EventFile::write_scalars(std::uint64_t step, std::span<const NamedScalar> scalars) {
  tensorboard::Event event = event_at(clock_(), step);
  for (const NamedScalar& scalar : scalars) {
    tensorboard::Summary::Value& value = *event.mutable_summary()->add_value();
    value.set_tag(scalar.tag);
    value.set_simple_value(static_cast<float>(scalar.value));
  }
  write(event.SerializeAsString());
}

void EventFile::write_histograms(std::uint64_t step, std::span<const NamedHistogram> histograms) {
  tensorboard::Event event = event_at(clock_(), step);
  for (const NamedHistogram& named : histograms) {
    const Histogram& histogram = named.histogram;
    if (histogram.num == 0) continue;
    tensorboard::Summary::Value& value = *event.mutable_summary()->add_value();
    value.set_tag(named.tag);
    tensorboard::HistogramProto& message = *value.mutable_histo();
    message.set_min(histogram.min);
    message.set_max(histogram.max);
    message.set_num(static_cast<double>(histogram.num));
    message.set_sum(histogram.sum);
    message.set_sum_squares(histogram.sum_squares);
    message.mutable_bucket_limit()->Add(histogram.limits.begin(), histogram.limits.end());
    message.mutable_bucket()->Add(histogram.counts.begin(), histogram.counts.end());
  }
  write(event.SerializeAsString());
}

void EventFile::write(std::string_view event) { file_.append(tfrecord(event)); }

}  // namespace terngrad
