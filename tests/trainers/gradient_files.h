// Gradient files for tests of terngrad_codec.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "datasets/formats/npy.h"
#include "trainers/io/safetensors.h"

namespace terngrad::testing {

/// Normal deviates.
inline std::vector<float> gaussian(std::size_t count, unsigned seed = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

/// Content of a .npy file of floats.
template <class Element>
std::string npy_of(const std::vector<Element>& values, const std::vector<std::int64_t>& shape) {
  std::string text = npy_beginning(NpyKind::kFloat, sizeof(Element), shape);
  text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Element));
  return text;
}

/// An fp32 tensor of a .safetensors file.
struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

inline void write_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors) {
  std::vector<TensorRecord> records;
  for (const NamedTensor& tensor : tensors) {
    records.push_back({tensor.name, TensorType::kF32, tensor.shape, std::as_bytes(std::span(tensor.values))});
  }
  write_safetensors(path, records, {});
}

/// A step of two workers with a matrix and a vector each, in the format of --dump_gradients.
inline void write_step(const std::filesystem::path& path, unsigned seed) {
  write_tensors(path, {{"worker-0000/weights", {64, 20}, gaussian(1280, seed)},
                       {"worker-0000/biases", {20}, gaussian(20, seed + 100)},
                       {"worker-0001/weights", {64, 20}, gaussian(1280, seed + 200)},
                       {"worker-0001/biases", {20}, gaussian(20, seed + 300)}});
}

}  // namespace terngrad::testing
