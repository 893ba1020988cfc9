#include "trainers/inspect/gradient_file.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "datasets/formats/input_file.h"
#include "datasets/formats/npy.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/float16.h"
#include "trainers/io/folder.h"
#include "trainers/io/safetensors.h"

namespace terngrad {
namespace {

namespace fs = std::filesystem;

/// A tensor in a file.
struct StoredTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  TensorType type = TensorType::kF32;
  std::span<const std::byte> bytes;  // may be unaligned
};

template <class Stored, class Widen>
void convert(std::span<const std::byte> bytes, std::span<float> out, const Widen& widen) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Stored value;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    out[i] = widen(value);
  }
}

/// Rounds to the nearest fp32; overflow becomes infinity.
float narrow(double value) {
  constexpr double kBeyond = 0x1.ffffffp127;  // rounds to 2^128
  if (std::isnan(value)) return std::numeric_limits<float>::quiet_NaN();
  if (std::fabs(value) >= kBeyond) return std::copysign(std::numeric_limits<float>::infinity(), value > 0 ? 1.f : -1.f);
  return static_cast<float>(value);
}

void read_elements(const StoredTensor& tensor, std::span<float> out) {
  switch (tensor.type) {
    case TensorType::kF16:
      return convert<std::uint16_t>(tensor.bytes, out, from_float16);
    case TensorType::kBf16:
      return convert<std::uint16_t>(tensor.bytes, out, from_bfloat16);
    case TensorType::kF64:
      return convert<double>(tensor.bytes, out, narrow);
    default:
      return convert<float>(tensor.bytes, out, [](float value) { return value; });
  }
}

void require_finite(const std::string& source, const std::string& name, std::span<const float> values) {
  const auto is_finite = [](float value) { return std::isfinite(value); };
  const auto first = std::ranges::find_if_not(values, is_finite);
  if (first == values.end()) return;
  TERNGRAD_THROW(DataError, "'", source, "': tensor '", name, "' holds NaN, infinity or numbers beyond fp32: ",
                 std::ranges::count_if(values, [&](float v) { return !is_finite(v); }), " of ", values.size(),
                 " elements, first element ", first - values.begin(), " (", *first, ")");
}

void require_count(const std::string& source, double num_elements) {
  if (num_elements <= static_cast<double>(kMaxFileElements)) return;
  TERNGRAD_THROW(DataError, "'", source, "': has ", num_elements, " elements, at most ", kMaxFileElements,
                 " are taken; split it by tensors");
}

/// Checks the file's size before reading it. @param most_bytes  maximum bytes per element
void require_size(const InputFile& file, std::uint64_t most_bytes, std::uint64_t header_bytes) {
  const std::uint64_t most = static_cast<std::uint64_t>(kMaxFileElements) * most_bytes + header_bytes;
  if (file.num_bytes() <= most) return;
  TERNGRAD_THROW(DataError, "'", file.path().string(), "': has ", file.num_bytes(), " bytes, more than the ",
                 kMaxFileElements, " elements that are taken can have; split it by tensors");
}

/// Splits "worker-<number>/<name>" into number and name; nullopt for other names.
std::optional<std::pair<std::size_t, std::string>> worker_of(std::string_view name) {
  constexpr std::string_view kPrefix = "worker-";
  constexpr std::size_t kDigits = 4;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos || slash < kPrefix.size() + kDigits || slash + 1 == name.size()) {
    return std::nullopt;
  }
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + slash, number);
  if (error != std::errc() || end != name.data() + slash) return std::nullopt;
  return std::pair(number, std::string(name.substr(slash + 1)));
}

/// Groups the tensors by worker.
std::vector<std::vector<StoredTensor>> split_workers(const std::string& source, std::vector<StoredTensor> tensors) {
  std::vector<std::vector<StoredTensor>> workers;
  if (!std::ranges::all_of(tensors, [](const StoredTensor& t) { return worker_of(t.name).has_value(); })) {
    workers.push_back(std::move(tensors));
    return workers;
  }
  for (StoredTensor& tensor : tensors) {
    const auto [worker, name] = *worker_of(tensor.name);
    if (worker >= tensors.size()) {
      TERNGRAD_THROW(DataError, "'", source, "': tensor '", tensor.name, "' is of a worker that is no number below ",
                     tensors.size(), ", the number of tensors");
    }
    if (worker >= workers.size()) workers.resize(worker + 1);
    tensor.name = name;
    workers[worker].push_back(std::move(tensor));
  }
  // Match by name, as a file may have them in any order; the first worker's order counts.
  for (std::size_t worker = 1; worker < workers.size(); ++worker) {
    std::vector<StoredTensor> in_order;
    for (const StoredTensor& first : workers[0]) {
      const auto found = std::ranges::find(workers[worker], first.name, &StoredTensor::name);
      if (found == workers[worker].end() || found->shape != first.shape) break;
      in_order.push_back(*found);
    }
    if (workers[0].empty() || in_order.size() != workers[0].size() || in_order.size() != workers[worker].size()) {
      TERNGRAD_THROW(DataError, "'", source, "': worker ", worker, " has other tensors than worker 0");
    }
    workers[worker] = std::move(in_order);
  }
  return workers;
}

GradientFile to_gradients(const std::string& source, std::vector<StoredTensor> tensors) {
  const std::vector<std::vector<StoredTensor>> workers = split_workers(source, std::move(tensors));
  GradientFile file{.source = source, .layout = {}, .workers = {}};
  try {
    for (const StoredTensor& tensor : workers[0]) file.layout.add(tensor.name, tensor.shape);
  } catch (const InvalidArgument& error) {
    TERNGRAD_THROW(DataError, "'", source, "': ", error.what());
  }
  if (file.layout.num_elements() == 0) {
    TERNGRAD_THROW(DataError, "'", source, "': its tensors have no elements: there is nothing to encode");
  }
  require_count(source, static_cast<double>(file.layout.num_elements()) * static_cast<double>(workers.size()));
  for (std::size_t worker = 0; worker < workers.size(); ++worker) {
    Buffer<float> flat = zeros<float>(file.layout.flat_elements());
    for (int index = 0; index < file.layout.num_segments(); ++index) {
      const Segment& place = file.layout.segment(index);
      const std::span<float> out =
          flat.span().subspan(static_cast<std::size_t>(place.offset), static_cast<std::size_t>(place.num_elements));
      read_elements(workers[worker][static_cast<std::size_t>(index)], out);
      require_finite(source, workers.size() == 1 ? place.name : place.name + "' of worker '" + std::to_string(worker),
                     out);
    }
    file.workers.push_back(std::move(flat));
  }
  return file;
}

GradientFile from_npy(std::span<const std::uint8_t> content, const std::string& source) {
  const NpyArray array = parse_npy(source, content);
  if (array.kind != NpyKind::kFloat) {
    TERNGRAD_THROW(DataError, "'", source, "': holds integers; gradients are fp16, fp32 or fp64");
  }
  const TensorType type = array.element_bytes == 2   ? TensorType::kF16
                          : array.element_bytes == 4 ? TensorType::kF32
                                                     : TensorType::kF64;
  return to_gradients(source, {{"tensor", array.shape, type, std::as_bytes(array.data)}});
}

GradientFile from_safetensors(const SafetensorsFile& file) {
  const std::string& source = file.source();
  std::vector<StoredTensor> tensors;
  std::vector<std::string> left_out(file.left_out().begin(), file.left_out().end());
  for (const TensorRecord& record : file.tensors()) {
    if (record.type != TensorType::kF16 && record.type != TensorType::kBf16 && record.type != TensorType::kF32 &&
        record.type != TensorType::kF64) {
      left_out.push_back("'" + record.name + "' (" + std::string(tensor_type_name(record.type)) + ")");
      continue;
    }
    tensors.push_back({record.name, record.shape, record.type, record.bytes});
  }
  if (tensors.empty() && !left_out.empty()) {
    TERNGRAD_THROW(DataError, "'", source, "': tensor ", left_out.front(),
                   " is of no type of gradients; accepted: F16, BF16, F32, F64");
  }
  if (tensors.empty()) TERNGRAD_THROW(DataError, "'", source, "': has no tensors");
  GradientFile gradients = to_gradients(source, std::move(tensors));
  gradients.left_out = std::move(left_out);
  return gradients;
}

GradientFile read_npy(const fs::path& path) {
  const std::string source = path.string();
  const InputFile file(path);
  const NpyArray header = parse_npy_header(source, file.read_beginning(kNpyBeginningBytes));
  require_count(source, static_cast<double>(header.num_elements));
  require_size(file, header.element_bytes, kNpyBeginningBytes);
  return from_npy(file.read_all(), source);
}

GradientFile read_safetensors(const fs::path& path) {
  constexpr std::uint64_t kMostHeaderBytes = 100'000'008;  // limit of SafetensorsFile
  require_size(InputFile(path), sizeof(double), kMostHeaderBytes);
  return from_safetensors(SafetensorsFile::read(path, OtherTypes::kLeftOut));
}

[[noreturn]] void refuse_name(const std::string& source) {
  TERNGRAD_THROW(DataError, "'", source, "': is neither .npy nor .safetensors by its name");
}

/// The number in the name of a gradient file; nullopt for other names.
std::optional<std::uint64_t> step_of(const std::string& name) {
  constexpr std::string_view kPrefix = "step-";
  const std::size_t dot = name.rfind('.');
  const std::string_view ending = dot == std::string::npos ? "" : std::string_view(name).substr(dot);
  if (!name.starts_with(kPrefix) || (ending != ".safetensors" && ending != ".npy")) return std::nullopt;
  std::uint64_t step = 0;
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + dot, step);
  if (error != std::errc() || end != name.data() + dot) return std::nullopt;
  return step;
}

}  // namespace

GradientFile read_gradient_file(const fs::path& path) {
  if (path.extension() == ".npy") return read_npy(path);
  if (path.extension() == ".safetensors") return read_safetensors(path);
  refuse_name(path.string());
}

GradientFile parse_gradient_file(std::span<const std::uint8_t> content, const std::string& source) {
  const fs::path ending = fs::path(source).extension();
  if (ending == ".npy") return from_npy(content, source);
  if (ending != ".safetensors") refuse_name(source);
  const std::span<const std::byte> bytes = std::as_bytes(content);
  return from_safetensors(SafetensorsFile::parse({bytes.begin(), bytes.end()}, source, OtherTypes::kLeftOut));
}

std::vector<std::pair<std::uint64_t, fs::path>> list_gradient_files(const fs::path& path) {
  if (!is_folder(path)) return {{1, path}};
  std::vector<std::pair<std::uint64_t, fs::path>> files;
  for (const std::string& name : Folder(path).names()) {
    if (const std::optional<std::uint64_t> step = step_of(name)) files.emplace_back(*step, path / name);
  }
  if (files.empty() && is_folder(path / "gradients")) return list_gradient_files(path / "gradients");
  if (files.empty()) {
    TERNGRAD_THROW(DataError, "'", path.string(), "': holds no step-<number>.safetensors or .npy; ",
                   "terngrad_train --dump_gradients N writes some");
  }
  std::ranges::sort(files);
  const auto same = std::ranges::adjacent_find(files, {}, [](const auto& file) { return file.first; });
  if (same == files.end()) return files;
  TERNGRAD_THROW(DataError, "'", path.string(), "': holds step ", same->first,
                 " twice: ", same->second.filename().string(), " and ", std::next(same)->second.filename().string());
}

}  // namespace terngrad
