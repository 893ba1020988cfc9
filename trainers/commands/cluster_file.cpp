#include "trainers/commands/cluster_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "kernels/runtime/errors.h"

namespace terngrad {

namespace {

constexpr std::size_t kMaxClusterBytes = std::size_t{1} << 20;
constexpr int kMaxMachines = 1 << 20;
constexpr int kMaxGpusPerMachine = 1024;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 50;

/// Numbers that are accepted, both ends included.
struct Range {
  double low = 0;
  double high = 0;
  bool without_low = false;
};
constexpr Range kPositive{0, 1e30, true};
constexpr Range kNotNegative{0, 1e30};
constexpr Range kFraction{0, 1, true};

/// A value of the file, and how messages call it: "links.network.latency_us".
class JsonValue {
 public:
  JsonValue(const nlohmann::json& json, const std::string& file, std::string path)
      : json_(json), file_(file), path_(std::move(path)) {}

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    TERNGRAD_THROW(InvalidArgument, "cluster file '", file_, "': ", path_.empty() ? "the file" : path_, " ", parts...);
  }

  /// Accepts an object with these keys only.
  void check_keys(std::initializer_list<std::string_view> keys) const {
    if (!json_.is_object()) fail("must be an object");
    for (const auto& [key, value] : json_.items()) {
      if (std::ranges::find(keys, key) != keys.end()) continue;
      std::ostringstream accepted;
      for (const std::string_view known : keys) accepted << (known == *keys.begin() ? "" : ", ") << known;
      fail("has the unknown key '", key, "'; accepted: ", accepted.str());
    }
  }

  bool has(const char* key) const { return json_.contains(key); }
  JsonValue at(const char* key) const {
    if (!has(key)) fail("lacks the key '", key, "'");
    return {json_.at(key), file_, path_.empty() ? key : path_ + "." + key};
  }

  /// Of a list, which may not be empty.
  std::vector<JsonValue> items() const {
    if (!json_.is_array() || json_.empty()) fail("must be a list of one item or more");
    std::vector<JsonValue> all;
    for (std::size_t i = 0; i < json_.size(); ++i) {
      all.emplace_back(json_[i], file_, path_ + "[" + std::to_string(i) + "]");
    }
    return all;
  }

  std::string text() const {
    if (!json_.is_string() || json_.get_ref<const std::string&>().empty()) fail("must be a text that is not empty");
    return json_.get<std::string>();
  }

  double number(const Range& range) const {
    if (!json_.is_number()) fail("must be a number");
    const auto value = json_.get<double>();
    const bool is_in_range = value <= range.high && (range.without_low ? value > range.low : value >= range.low);
    if (!is_in_range) {
      fail("must be ", range.without_low ? "above " : "from ", range.low, range.without_low ? ", at most " : " to ",
           range.high, ", got ", value);
    }
    return value;
  }

  std::int64_t integer(std::int64_t low, std::int64_t high) const {
    if (!json_.is_number_integer()) fail("must be an integer");
    // Beyond int64 the library has an unsigned number.
    const bool fits = !json_.is_number_unsigned() || json_.get<std::uint64_t>() <= static_cast<std::uint64_t>(high);
    if (!fits || json_.get<std::int64_t>() < low || json_.get<std::int64_t>() > high) {
      fail("must be from ", low, " to ", high, ", got ", json_.dump());
    }
    return json_.get<std::int64_t>();
  }
  int small_integer(int low, int high) const { return static_cast<int>(integer(low, high)); }

 private:
  const nlohmann::json& json_;
  const std::string& file_;
  std::string path_;
};

/// Reads the parts of a file, and remembers whether one of them was measured.
class ClusterReader {
 public:
  ClusterFile read(const JsonValue& top);

 private:
  InputSource source(const JsonValue& value);
  Sourced<double> number(const JsonValue& value, const Range& range);
  Sourced<LinkModel> link(const JsonValue& value);
  Sourced<LinearTime> time(const JsonValue& value, const char* units);
  ClusterNet net(const JsonValue& value);
  CodecWork codec(const JsonValue& value);
  void read_links(const JsonValue& value, Cluster& cluster);
  Cluster cluster(const JsonValue& top);
  void read_calibration(const JsonValue& top, ClusterFile& file) const;

  bool is_measured_ = false;
};

InputSource ClusterReader::source(const JsonValue& value) {
  const std::string text = value.text();
  for (const InputSource each : {InputSource::kMeasured, InputSource::kGiven, InputSource::kAssumed}) {
    if (text != to_string(each)) continue;
    is_measured_ = is_measured_ || each == InputSource::kMeasured;
    return each;
  }
  value.fail("is '", text, "'; accepted: measured, given, assumed");
}

Sourced<double> ClusterReader::number(const JsonValue& value, const Range& range) {
  value.check_keys({"value", "source"});
  return {value.at("value").number(range), source(value.at("source"))};
}

LinkModel fitted_link(const JsonValue& value) {
  std::vector<LinkSample> samples;
  for (const JsonValue& item : value.items()) {
    item.check_keys({"bytes", "seconds", "spread"});  // of the command's own output; the spread does not count
    samples.push_back({.bytes = item.at("bytes").number(kPositive), .seconds = item.at("seconds").number(kPositive)});
  }
  const auto is_as_first = [&](const LinkSample& sample) { return sample.bytes == samples.front().bytes; };
  if (std::ranges::all_of(samples, is_as_first)) value.fail("must have samples of two sizes or more");
  return fit_link(samples);
}

Sourced<LinkModel> ClusterReader::link(const JsonValue& value) {
  if (value.has("samples")) {
    value.check_keys({"samples"});
    is_measured_ = true;
    return {fitted_link(value.at("samples")), InputSource::kMeasured};
  }
  value.check_keys({"latency_us", "gbytes_per_second", "gbits_per_second", "source", "samples"});
  const bool has_bits = value.has("gbits_per_second");
  if (has_bits && value.has("gbytes_per_second")) {
    value.fail("has both gbytes_per_second and gbits_per_second; accepted: one of them");
  }
  const double giga = has_bits ? 1e9 / 8 : 1e9;
  const double rate = value.at(has_bits ? "gbits_per_second" : "gbytes_per_second").number(kPositive);
  return {{.latency_seconds = 1e-6 * value.at("latency_us").number(kNotNegative), .bytes_per_second = giga * rate},
          source(value.at("source"))};
}

Sourced<LinearTime> ClusterReader::time(const JsonValue& value, const char* units) {
  value.check_keys({"points", "source"});
  const JsonValue list = value.at("points");
  std::vector<TimePoint> points;
  for (const JsonValue& item : list.items()) {
    item.check_keys({units, "seconds"});
    points.push_back({.units = item.at(units).number(kPositive), .seconds = item.at("seconds").number(kNotNegative)});
  }
  if (points.size() > 2) list.fail("must have one or two points, got ", points.size());
  if (points.size() == 2 && !(points[0].units < points[1].units && points[0].seconds <= points[1].seconds)) {
    list.fail("must have a second point of more ", units, " that takes no less time than the first");
  }
  return {line_through(points), source(value.at("source"))};
}

GradientBucket bucket_of(const JsonValue& value) {
  value.check_keys({"elements", "plain_elements", "tensors", "ready_fraction"});
  GradientBucket bucket{.elements = value.at("elements").integer(1, kMaxElements)};
  bucket.plain_elements = value.at("plain_elements").integer(0, bucket.elements);
  bucket.num_tensors = value.at("tensors").small_integer(0, 1 << 20);
  bucket.ready_fraction = value.at("ready_fraction").number(kFraction);
  return bucket;
}

ClusterNet ClusterReader::net(const JsonValue& value) {
  value.check_keys({"name", "examples_per_worker", "compute", "update", "backward_fraction", "buckets"});
  ClusterNet net{.name = value.at("name").text(),
                 .examples_per_worker = value.at("examples_per_worker").number(kPositive),
                 .compute = time(value.at("compute"), "examples"),
                 .update = time(value.at("update"), "elements")};
  if (value.has("backward_fraction")) net.backward_fraction = number(value.at("backward_fraction"), kFraction);
  for (const JsonValue& item : value.at("buckets").items()) net.buckets.push_back(bucket_of(item));
  return net;
}

CodecWork ClusterReader::codec(const JsonValue& value) {
  value.check_keys({"name", "encode", "decode"});
  const JsonValue name = value.at("name");
  constexpr std::array kNames = {"fp32", "bf16", "t2", "t5", "tmask", "trans", "lanes"};
  if (std::ranges::find(kNames, name.text()) == kNames.end()) {
    name.fail("is '", name.text(), "'; accepted: fp32, bf16, t2, t5, tmask, trans, lanes");
  }
  return {.codec = name.text(),
          .encode = time(value.at("encode"), "elements"),
          .decode = time(value.at("decode"), "elements")};
}

void ClusterReader::read_links(const JsonValue& value, Cluster& cluster) {
  value.check_keys({"gpu", "host", "network"});
  const auto read = [&](const char* key, bool is_needed, Sourced<LinkModel>& to) {
    if (value.has(key) || is_needed) to = link(value.at(key));
  };
  read("gpu", cluster.gpus_per_machine > 1, cluster.gpu);
  read("host", cluster.gpus_per_machine > 1 && cluster.num_machines > 1, cluster.host);
  read("network", cluster.num_machines > 1, cluster.network);
}

Cluster ClusterReader::cluster(const JsonValue& top) {
  Cluster cluster{.name = top.at("name").text(),
                  .num_machines = top.at("machines").small_integer(1, kMaxMachines),
                  .gpus_per_machine = top.at("gpus_per_machine").small_integer(1, kMaxGpusPerMachine),
                  .measured_workers = top.at("measured_workers").small_integer(1, kMaxMachines * kMaxGpusPerMachine)};
  read_links(top.at("links"), cluster);
  if (top.has("bisection_factor")) cluster.bisection_factor = number(top.at("bisection_factor"), kFraction);
  if (top.has("straggler_deviation")) {
    cluster.straggler_deviation = number(top.at("straggler_deviation"), {0, 10});
  }
  return cluster;
}

void ClusterReader::read_calibration(const JsonValue& top, ClusterFile& file) const {
  if (!top.has("calibration")) {
    if (is_measured_) top.fail("lacks the key 'calibration', which says what measured its measured numbers");
    return;
  }
  const JsonValue calibration = top.at("calibration");
  calibration.check_keys({"commit", "machine"});
  file.commit = calibration.at("commit").text();
  file.machine = calibration.at("machine").text();
}

/// The items of a list that may be missing, no two of one name.
template <class Read>
auto read_named(const JsonValue& top, const char* key, const Read& read) {
  std::vector<decltype(read(top))> all;
  if (!top.has(key)) return all;
  std::set<std::string> names;
  for (const JsonValue& item : top.at(key).items()) {
    all.push_back(read(item));
    if (!names.insert(item.at("name").text()).second) item.fail("has the name of another one");
  }
  return all;
}

ClusterFile ClusterReader::read(const JsonValue& top) {
  top.check_keys({"schema", "name", "machines", "gpus_per_machine", "measured_workers", "links", "bisection_factor",
                  "straggler_deviation", "calibration", "nets", "codecs"});
  top.at("schema").integer(1, 1);
  ClusterFile file{.cluster = cluster(top),
                   .nets = read_named(top, "nets", [&](const JsonValue& value) { return net(value); }),
                   .codecs = read_named(top, "codecs", [&](const JsonValue& value) { return codec(value); })};
  read_calibration(top, file);
  return file;
}

/// Refuses keys that an object has twice, of which the library would keep the last.
class UniqueKeys {
 public:
  explicit UniqueKeys(const std::string& file) : file_(file) {}

  bool operator()(int, nlohmann::json::parse_event_t event, const nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) objects_.emplace_back();
    if (event == Event::object_end) objects_.pop_back();
    if (event == Event::key && !objects_.back().insert(parsed.get<std::string>()).second) {
      TERNGRAD_THROW(InvalidArgument, "cluster file '", file_, "': the key '", parsed.get<std::string>(),
                     "' is there twice in one object");
    }
    return true;
  }

 private:
  const std::string& file_;
  std::vector<std::set<std::string>> objects_;
};

nlohmann::json parse_json(const std::string& text, const std::string& file) {
  try {
    return nlohmann::json::parse(text, UniqueKeys(file), /*allow_exceptions=*/true, /*ignore_comments=*/true);
  } catch (const nlohmann::json::exception& error) {
    TERNGRAD_THROW(InvalidArgument, "cluster file '", file, "': is not JSON: ", error.what());
  }
}

}  // namespace

ClusterFile parse_cluster(const std::string& text, const std::string& file) {
  const nlohmann::json json = parse_json(text, file);
  return ClusterReader().read(JsonValue(json, file, ""));
}

ClusterFile read_cluster_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) TERNGRAD_THROW(DataError, "cannot read '", path, "': ", std::strerror(errno));
  std::string text(kMaxClusterBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) TERNGRAD_THROW(DataError, "cannot read '", path, "': ", std::strerror(errno));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > kMaxClusterBytes) {
    TERNGRAD_THROW(DataError, "'", path, "' holds more than the ", kMaxClusterBytes, " bytes accepted here");
  }
  return parse_cluster(text, path);
}

}  // namespace terngrad
