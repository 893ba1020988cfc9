// Codecs, plans, encoding and decoding of messages.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>

#include "compress/codecs/float_codecs.h"
#include "compress/comm/communicator.h"
#include "compress/memory/memory_options.h"
#include "compress/memory/worker_memory.h"
#include "compress/plan/codec_facts.h"
#include "compress/plan/codec_presets.h"
#include "compress/plan/codec_registry.h"
#include "compress/wire/aggregate_messages.h"
#include "compress/wire/gradient_message.h"
#include "compress/wire/worker_encoder.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler_limits.h"
#include "python/src/calls.h"
#include "python/src/module.h"
#include "python/src/plan.h"

namespace terngrad::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

nb::dict to_dict(const CodecFact& fact) {
  nb::dict result;
  result["by_default"] = fact.by_default;
  result["changed_by"] = nb::cast(fact.changed_by);
  return result;
}

nb::list list_codecs() {
  nb::list result;
  for (const CodecEntry& entry : codec_entries()) {
    const CodecFacts facts = codec_facts(entry.name);
    nb::list keys;
    for (const SpecKey& key : codec_keys(entry.name)) {
      nb::dict described;
      described["name"] = key.name;
      described["default"] = key.default_value;
      described["accepted"] = key.accepted;
      described["meaning"] = key.meaning;
      keys.append(described);
    }
    nb::dict codec;
    codec["name"] = entry.name;
    codec["summary"] = entry.summary;
    codec["source"] = entry.source;
    codec["runs_on_gpus"] = entry.runs_on_gpus;
    codec["bits_per_element"] = nb::cast(facts.bits);
    codec["unbiased"] = to_dict(facts.unbiased);
    codec["summable"] = to_dict(facts.summable);
    codec["sums_as_float"] = facts.sums_as_float;
    codec["keys"] = keys;
    result.append(codec);
  }
  return result;
}

nb::list list_presets() {
  nb::list result;
  for (const CodecPreset& preset : codec_presets()) {
    nb::dict described;
    described["name"] = preset.name;
    described["summary"] = preset.summary;
    described["spec"] = preset.spec;
    described["memory"] = preset.memory;
    result.append(described);
  }
  return result;
}

using Rules = std::vector<std::pair<std::string, std::string>>;

Plan make_plan(const std::vector<std::string>& names, const std::vector<std::vector<std::int64_t>>& shapes,
               const std::vector<bool>& logits, const std::string& codec, const Rules& codec_for,
               std::int64_t min_elements, bool quantize_logits, int num_workers) {
  TERNGRAD_REQUIRE(num_workers >= 1, "num_workers must be at least 1, got ", num_workers);
  Layout layout;
  for (std::size_t i = 0; i < names.size(); ++i) layout.add(names[i], shapes.at(i), logits.at(i));
  CodecPlanOptions options;
  options.codec = codec;
  for (const auto& [pattern, spec] : codec_for) options.rules.push_back({pattern, spec});
  options.size_to_binarize = min_elements;
  options.quantize_logits = quantize_logits;
  options.context.num_workers = num_workers;
  CodecPlan codecs(layout, options);
  std::string memory = default_memory(codec, codecs, num_workers);
  return {std::move(layout), std::move(codecs), num_workers, std::move(memory)};
}

/// Bytes of a tensor in a message, its record included; the maximum for payloads without a fixed size.
std::int64_t record_bytes(const Codec& codec, const Slice& whole) {
  MessageSize size(1);
  size.add(codec.scaler_range(whole).count, codec.max_payload_bytes(whole, PayloadForm::kNatural));
  return parcel_bytes(static_cast<std::uint64_t>(size.bytes())) - static_cast<std::int64_t>(kWireHeaderBytes);
}

nb::list plan_tensors(const Plan& plan) {
  const FloatCodec fp32(FloatCodec::Width::kFloat32, plan.num_workers);
  nb::list result;
  for (int segment = 0; segment < plan.layout.num_segments(); ++segment) {
    const Segment& tensor = plan.layout.segment(segment);
    const CodecPlan::Group& group = plan.codecs.groups()[static_cast<std::size_t>(plan.codecs.group_of(segment))];
    const CodecTraits traits = group.codec->traits();
    nb::dict described;
    described["name"] = tensor.name;
    described["shape"] = nb::tuple(nb::cast(tensor.shape));
    described["elements"] = tensor.num_elements;
    described["codec"] = group.spec;
    described["bits_per_element"] = traits.bits_per_element;
    described["fixed_size"] = traits.fixed_size;
    described["unbiased"] = traits.unbiased;
    described["exact"] = traits.is_exact;
    described["wants_error_feedback"] = traits.wants_error_feedback;
    described["summable"] = traits.summable;
    described["shares_scalers"] = shares_scalers(*group.codec);
    described["per_tensor"] = traits.per_tensor;
    described["draw_offset"] = tensor.draw_offset;
    described["num_scalers"] = plan.codecs.first_scaler(segment + 1) - plan.codecs.first_scaler(segment);
    const Slice whole{segment, 0, tensor.num_elements};
    described["nbytes"] = record_bytes(*group.codec, whole);
    described["nbytes_as_fp32"] = record_bytes(fp32, whole);
    result.append(described);
  }
  return result;
}

std::vector<Tensor> read_all(const Plan& plan, const nb::list& tensors) {
  plan.require_all(nb::len(tensors), "the gradient");
  std::vector<Tensor> result;
  result.reserve(nb::len(tensors));
  for (int segment = 0; segment < plan.layout.num_segments(); ++segment) {
    result.push_back(
        read_tensor(tensors[static_cast<std::size_t>(segment)], "tensor '" + plan.layout.segment(segment).name + "'"));
  }
  return result;
}

/// Encodes one worker's gradients as messages.
class Encoder {
 public:
  /// @param tensors  the tensors to be encoded, which are checked before memory of their size is allocated
  Encoder(const Plan& plan, int worker, std::uint64_t seed, const nb::list& tensors)
      : plan_(checked(plan, tensors)),
        encoder_(plan.layout, plan.codecs, checked(plan, worker), plan.num_workers, seed) {}

  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  void measure(const nb::list& tensors, std::uint64_t step) {
    TERNGRAD_REQUIRE(step >> 40 == 0, "step: draws are keyed by 40 bits of it, got ", step);
    const std::vector<Tensor> gradient = read_all(plan_, tensors);
    const TensorTable table = plan_.table(plan_.layout, gradient, "");
    const UnlockedCall unlocked;
    encoder_.measure(table, step, stream_);
  }

  /// Names of the measured tensors that are not finite.
  std::vector<std::string> nonfinite() const {
    std::vector<std::string> names;
    for (int segment = 0; segment < plan_.layout.num_segments(); ++segment) {
      if (encoder_.is_nonfinite(segment)) names.push_back(plan_.layout.segment(segment).name);
    }
    return names;
  }

  std::vector<float> scalers() const {
    std::vector<float> result(static_cast<std::size_t>(plan_.codecs.num_scalers()));
    encoder_.copy_scalers(result);
    return result;
  }

  void set_scalers(int worker, const std::vector<float>& scalers) {
    for (const float scaler : scalers) {
      TERNGRAD_REQUIRE(std::isnan(scaler) || (scaler >= 0 && scaler <= kMaxScaler), "scalers of worker ", worker, ": ",
                       scaler, " is none that was measured");
    }
    encoder_.set_scalers(worker, scalers);
  }

  nb::bytes encode(const nb::list& tensors, std::uint64_t step, std::uint64_t run_id) {
    const std::vector<Tensor> gradient = read_all(plan_, tensors);
    const TensorTable table = plan_.table(plan_.layout, gradient, "");
    std::span<const std::uint8_t> message;
    {
      const UnlockedCall unlocked;
      message = encoder_.gradient_message(table, {run_id, plan_.codecs.fingerprint(), step}, stream_);
    }
    auto bytes = nb::steal<nb::bytes>(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(message.size())));
    if (!bytes.is_valid()) throw nb::python_error();
    char* const copy = PyBytes_AsString(bytes.ptr());
    {
      const UnlockedCall unlocked;
      prefer_huge_pages(copy, message.size());
      if (!message.empty()) std::memcpy(copy, message.data(), message.size());
    }
    return bytes;
  }

 private:
  static const Plan& checked(const Plan& plan, const nb::list& tensors) {
    read_all(plan, tensors);
    return plan;
  }
  static int checked(const Plan& plan, int worker) {
    TERNGRAD_REQUIRE(worker >= 0 && worker < plan.num_workers, "worker ", worker, " is none of ", plan.num_workers);
    return worker;
  }

  const Plan& plan_;
  WorkerEncoder encoder_;
  Stream stream_{Device::cpu(), 1};
};

std::span<const std::uint8_t> view(const nb::bytes& bytes) {
  return {static_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

/// A message at an address that is a multiple of 8: a view of the bytes object, copied only if it is not aligned.
class AlignedBytes {
 public:
  explicit AlignedBytes(const nb::bytes& bytes) : bytes_(view(bytes)) {
    if (reinterpret_cast<std::uintptr_t>(bytes_.data()) % 8 == 0) return;
    words_.resize((bytes.size() + 7) / 8);
    std::memcpy(words_.data(), bytes.data(), bytes.size());
    bytes_ = {reinterpret_cast<const std::uint8_t*>(words_.data()), bytes.size()};
  }
  std::span<const std::uint8_t> get() const { return bytes_; }

 private:
  std::vector<std::uint64_t> words_;
  std::span<const std::uint8_t> bytes_;
};

/// Output arrays for all tensors of a plan.
struct Output {
  std::vector<Tensor> tensors;
  TensorTable table;

  Output(const Plan& plan, const nb::list& out) {
    plan.require_all(nb::len(out), "out");
    tensors.reserve(nb::len(out));
    for (int segment = 0; segment < plan.layout.num_segments(); ++segment) {
      tensors.push_back(write_tensor(out[static_cast<std::size_t>(segment)],
                                     "out, tensor '" + plan.layout.segment(segment).name + "'"));
    }
    require_apart(tensors, "out");
    table = plan.table(plan.layout, tensors, "out, ");
  }
};

int decode(const Plan& plan, const nb::bytes& bytes, std::uint64_t seed, std::uint64_t step, std::uint64_t run_id,
           const nb::list& out) {
  const Output output(plan, out);
  const AlignedBytes message_bytes(bytes);
  const UnlockedCall unlocked;
  Message message;
  read_gradient_message(message_bytes.get(), plan.layout, plan.codecs, {run_id, plan.codecs.fingerprint(), step, seed},
                        message);
  decode_gradient(message, plan.codecs, output.table);
  return message.worker;
}

/// Decodes one record of a message. @throws NotSupported for records other than one worker's codes or floats
void decode_record(const Plan& plan, const nb::bytes& bytes, std::size_t index, std::uint64_t seed, nb::handle out) {
  const AlignedBytes message_bytes(bytes);
  const std::span<const std::uint8_t> message = message_bytes.get();
  const MessageOutline outline = outline_message(message);
  TERNGRAD_REQUIRE(index < outline.records.size(), "record ", index, ": the message has ", outline.records.size());
  const MessageOutline::Record& record = outline.records[index];
  TERNGRAD_REQUIRE(record.segment < static_cast<std::uint32_t>(plan.layout.num_segments()), "record ", index,
                   " is of tensor ", record.segment, ", the shapes are of ", plan.layout.num_segments());
  const Segment& segment = plan.layout.segment(static_cast<int>(record.segment));
  const auto num_elements = static_cast<std::uint64_t>(segment.num_elements);
  TERNGRAD_REQUIRE(record.first <= num_elements && record.count <= num_elements - record.first, "record ", index,
                   " ends behind tensor '", segment.name, "', which has ", num_elements, " elements");
  const FloatCodec fp32(FloatCodec::Width::kFloat32, plan.num_workers);
  const FloatCodec bf16(FloatCodec::Width::kBfloat16, plan.num_workers);
  const bool is_float = record.codec == fp32.wire_id() || record.codec == bf16.wire_id();  // floats, such as a mean
  const Codec& codec = !is_float                        ? plan.codecs.codec_of(static_cast<int>(record.segment))
                       : record.codec == fp32.wire_id() ? fp32
                                                        : bf16;
  if (outline.label.kind == MessageKind::kScalers || record.codec != codec.wire_id() ||
      record.format != codec.record_format(PayloadForm::kNatural)) {
    TERNGRAD_THROW(NotSupported, "record ", index, " (codec ", static_cast<int>(record.codec), ", format ",
                   static_cast<int>(record.format), ") has no elements in the format of codec ", codec.name());
  }
  EncodedSlice encoded{
      .slice = {static_cast<int>(record.segment), static_cast<std::int64_t>(record.first),
                static_cast<std::int64_t>(record.count)},
      .format = record.format,
      .scalers = {reinterpret_cast<const float*>(message.data() + record.scalers_at), record.num_scalers},
      .payload = message.subspan(record.codes_at, record.bytes),
      .key = StepKey{seed, outline.label.step},
      .draw_offset = segment.draw_offset};
  if (!is_float && static_cast<std::int64_t>(record.num_scalers) != codec.scaler_range(encoded.slice).count) {
    TERNGRAD_THROW(CommunicationError, "record ", index, " has ", record.num_scalers, " scalers, codec ", codec.name(),
                   " has ", codec.scaler_range(encoded.slice).count);
  }
  check_scalers(codec, encoded);
  codec.check(encoded);
  const Tensor tensor = write_tensor(out, "out");
  codec.decode(encoded, {static_cast<float*>(tensor.data()), static_cast<std::size_t>(record.count)});
}

void aggregate(const Plan& plan, const std::vector<nb::bytes>& messages, std::uint64_t seed, std::uint64_t step,
               std::uint64_t run_id, const nb::list& out) {
  const Output output(plan, out);
  std::vector<std::span<const std::uint8_t>> bytes;
  bytes.reserve(messages.size());
  for (const nb::bytes& message : messages) bytes.push_back(view(message));
  const UnlockedCall unlocked;
  Stream stream(Device::cpu(), 1);
  aggregate_messages(bytes, plan.layout, plan.codecs, plan.num_workers, {run_id, plan.codecs.fingerprint(), step, seed},
                     output.table, stream);
}

/// Codec names by their numbers in messages.
std::map<int, std::string> names_by_wire_id() {
  std::map<int, std::string> names;
  for (const CodecEntry& entry : codec_entries()) names[make_codec(entry.name, {})->wire_id()] = entry.name;
  return names;
}

nb::dict inspect(const nb::bytes& message) {
  static const std::map<int, std::string> names = names_by_wire_id();
  const std::span<const std::uint8_t> bytes = view(message);
  const MessageOutline outline = outline_message(bytes);
  nb::list records;
  for (const MessageOutline::Record& record : outline.records) {
    const auto name = names.find(record.codec);
    std::vector<float> scalers(record.num_scalers);
    if (!scalers.empty()) std::memcpy(scalers.data(), bytes.data() + record.scalers_at, 4 * scalers.size());
    nb::dict described;
    described["tensor"] = record.segment;
    described["codec"] = name != names.end() ? name->second : "";
    described["format"] = static_cast<int>(record.format);
    described["first"] = record.first;
    described["count"] = record.count;
    described["scalers"] = nb::tuple(nb::cast(scalers));
    described["code_bytes"] = record.bytes;
    records.append(described);
  }
  nb::dict result;
  result["kind"] = static_cast<int>(outline.label.kind);
  result["run_id"] = outline.run_id;
  result["fingerprint"] = outline.fingerprint;
  result["step"] = outline.label.step;
  result["worker"] = outline.label.worker;
  result["num_elements"] = outline.num_elements;
  result["nbytes"] = bytes.size();
  result["records"] = records;
  return result;
}

}  // namespace

void Plan::require_all(std::size_t num_tensors, const std::string& what) const {
  TERNGRAD_REQUIRE(static_cast<int>(num_tensors) == layout.num_segments(), what, " has ", num_tensors,
                   " tensors, the plan has ", layout.num_segments());
}

TensorTable Plan::table(const Layout& selection, const std::vector<Tensor>& tensors, const std::string& whose) const {
  std::vector<void*> pointers;
  pointers.reserve(tensors.size());
  for (int i = 0; i < selection.num_segments(); ++i) {
    const Tensor& tensor = tensors.at(static_cast<std::size_t>(i));
    const Segment& segment = selection.segment(i);
    const auto text_of = [](const std::vector<std::int64_t>& shape) {
      std::string text;
      for (const std::int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
      return "[" + text + "]";
    };
    TERNGRAD_REQUIRE(tensor.shape() == segment.shape, whose, "tensor '", segment.name, "' has the shape ",
                     text_of(tensor.shape()), ", expected ", text_of(segment.shape));
    TERNGRAD_REQUIRE(tensor.type == tensors.front().type, whose, "tensor '", segment.name, "' is ",
                     element_type_name(tensor.type), ", the tensors before it are ",
                     element_type_name(tensors.front().type));
    pointers.push_back(tensor.data());
  }
  return {selection, tensors.empty() ? ElementType::kFloat32 : tensors.front().type, pointers};
}

void bind_codecs(nb::module_& module) {
  module.def("list_codecs", &list_codecs);
  module.def("list_presets", &list_presets);
  module.def(
      "canonical_spec", [](const std::string& spec) { return to_string(canonical_codec_spec(spec)); }, "spec"_a);
  module.def(
      "canonical_memory", [](const std::string& memory) { return canonical_memory(memory); }, "memory"_a);
  nb::class_<Plan>(module, "Plan")
      .def_static("make", &make_plan, "names"_a, "shapes"_a, "logits"_a, "codec"_a, "codec_for"_a, "min_elements"_a,
                  "quantize_logits"_a, "num_workers"_a)
      .def_ro("num_workers", &Plan::num_workers)
      .def_ro("memory", &Plan::memory)
      .def_prop_ro("fingerprint", [](const Plan& plan) { return plan.codecs.fingerprint(); })
      .def("tensors", &plan_tensors);
  nb::class_<Encoder>(module, "Encoder")
      .def(nb::init<const Plan&, int, std::uint64_t, const nb::list&>(), "plan"_a, "worker"_a, "seed"_a, "tensors"_a,
           nb::keep_alive<1, 2>())
      .def("measure", &Encoder::measure, "tensors"_a, "step"_a)
      .def("nonfinite", &Encoder::nonfinite)
      .def("scalers", &Encoder::scalers)
      .def("set_scalers", &Encoder::set_scalers, "worker"_a, "scalers"_a)
      .def("encode", &Encoder::encode, "tensors"_a, "step"_a, "run_id"_a);
  module.def("decode", &decode, "plan"_a, "message"_a, "seed"_a, "step"_a, "run_id"_a, "out"_a);
  module.def("decode_record", &decode_record, "plan"_a, "message"_a, "index"_a, "seed"_a, "out"_a);
  module.def("aggregate", &aggregate, "plan"_a, "messages"_a, "seed"_a, "step"_a, "run_id"_a, "out"_a);
  module.def("inspect", &inspect, "message"_a);
}

}  // namespace terngrad::python
