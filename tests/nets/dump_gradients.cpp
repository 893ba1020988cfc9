// terngrad_dump_gradients NET FOLDER [NUM_EXAMPLES [SIDE [BATCH [firm]]]]: runs one step of a net (name or "branched",
// see branched_net.h) on random examples and writes it to FOLDER for scripts/dev/compare_pytorch.py. Images have SIDE
// rows and columns, by default those of image_of; BATCH (from 1) selects the random images. Files: layout.txt and
// state_layout.txt (one line per tensor: name, first element, shape joined by x), and little-endian arrays
// parameters.f32, images.f32 [n, rows, columns, channels], labels.i32 [n], gradients.f32, state.f32 (after the step),
// logits.f32 [n, 10] and loss.f64 [2] (entropy_loss and auxiliary_loss of WorkerLoss). "firm": see make_relus_firm.
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/errors.h"
#include "nets/net.h"
#include "tests/nets/branched_net.h"
#include "tests/nets/reference_net.h"

namespace terngrad {
namespace {

template <class T>
void write_array(const std::filesystem::path& path, std::span<const T> values) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size_bytes()));
  if (!file.flush()) TERNGRAD_THROW(DataError, "cannot write ", path.string());
}

void write_layout(const std::filesystem::path& path, const Layout& layout) {
  std::ofstream file(path);
  for (const Segment& segment : layout.segments()) {
    file << segment.name << ' ' << segment.offset << ' ';
    for (std::size_t i = 0; i < segment.shape.size(); ++i) file << (i == 0 ? "" : "x") << segment.shape[i];
    file << '\n';
  }
  if (!file.flush()) TERNGRAD_THROW(DataError, "cannot write ", path.string());
}

/// Smallest images that pass through all layers with the usual paddings.
ImageShape image_of(const std::string& net) {
  static const std::map<std::string, ImageShape> images = {
      {"alexnet", {92, 92, 3}},         {"alexnet_v2", {67, 67, 3}}, {"branched", {9, 9, 4}},
      {"cifar10_alexnet", {24, 24, 3}}, {"googlenet", {64, 64, 3}},  {"googlenet_2014", {65, 65, 3}},
      {"inception_v3", {107, 107, 3}},  {"lenet", {28, 28, 1}},      {"resnet_18", {64, 64, 3}},
      {"resnet_50", {64, 64, 3}}};
  const auto image = images.find(net);
  return image == images.end() ? ImageShape{32, 32, 3} : image->second;
}

/// Without dropout, since PyTorch's draws differ.
NetSpec spec_of(const std::string& net) {
  return net == "branched" ? test::branched_net(/*keep_prob=*/1) : net_spec(net, {.dropout_keep_prob = 1});
}

/// Sets the offsets of batch norms to 8 and -8 alternately, beyond the range of normalized values: ReLUs after them are
/// open or closed for whole channels, independent of rounding.
void make_relus_firm(const Layout& layout, std::span<float> parameters) {
  constexpr float kFar = 8;
  for (const Segment& segment : layout.segments()) {
    if (!segment.name.ends_with("/beta")) continue;
    for (std::int64_t c = 0; c < segment.num_elements; ++c) {
      parameters[static_cast<std::size_t>(segment.offset + c)] = c % 2 == 0 ? kFar : -kFar;
    }
  }
}

struct DumpOptions {
  int num_examples = 64;
  int side = 0;   // side of images; 0: see image_of
  int batch = 1;  // selects the images
  bool is_firm = false;
};

void dump_gradients(const std::string& name, const std::filesystem::path& folder, const DumpOptions& options) {
  constexpr int kClasses = 10;
  const int num_examples = options.num_examples;
  ImageShape image = image_of(name);
  if (options.side > 0) image.height = image.width = options.side;
  const auto net = make_net(spec_of(name), image, kClasses, {.examples_per_worker = num_examples});
  auto parameters = zeros<float>(net->layout().flat_elements());
  auto gradients = zeros<float>(net->layout().flat_elements());
  net->initialize(1, parameters.span());
  if (options.is_firm) make_relus_firm(net->layout(), parameters.span());
  const auto count = static_cast<std::size_t>(num_examples);
  std::vector<float> images = test::random_floats(count * static_cast<std::size_t>(image.num_elements()),
                                                  static_cast<std::uint32_t>(options.batch));
  for (float& pixel : images) pixel *= 16;  // large enough for LRN's squares to matter
  const std::vector<std::int32_t> labels = test::cyclic_labels(num_examples, kClasses);
  auto state = zeros<float>(net->state_layout().flat_elements());
  net->initialize_state(state.span());
  float* const gradient = gradients.data();
  float* const states = state.data();
  WorkerLoss loss;
  net->compute_gradients(parameters.span(), {.images = images, .labels = labels, .states = {&states, 1}},
                         {&gradient, 1}, {&loss, 1});
  std::vector<float> logits(count * kClasses);
  // The moving statistics are those of the single step, so these are also the logits of training.
  net->predict(parameters.span(), state.span(), images, num_examples, logits);

  std::filesystem::create_directories(folder);
  write_layout(folder / "layout.txt", net->layout());
  write_layout(folder / "state_layout.txt", net->state_layout());
  write_array<float>(folder / "parameters.f32", parameters.span());
  write_array<float>(folder / "images.f32", images);
  write_array<std::int32_t>(folder / "labels.i32", labels);
  write_array<float>(folder / "gradients.f32", gradients.span());
  write_array<float>(folder / "state.f32", state.span());
  write_array<float>(folder / "logits.f32", logits);
  const double losses[] = {loss.entropy_loss, loss.auxiliary_loss};
  write_array<double>(folder / "loss.f64", losses);
}

}  // namespace
}  // namespace terngrad

int main(int argc, char** argv) {
  terngrad::DumpOptions options;
  if (argc > 3) options.num_examples = std::atoi(argv[3]);
  if (argc > 4) options.side = std::atoi(argv[4]);
  if (argc > 5) options.batch = std::atoi(argv[5]);
  options.is_firm = argc == 7 && argv[6] == std::string("firm");
  if (argc < 3 || argc > (options.is_firm ? 7 : 6) || options.num_examples < 1 || options.side < 0 ||
      options.batch < 1) {
    std::cerr << "usage: terngrad_dump_gradients NET FOLDER [NUM_EXAMPLES [SIDE [BATCH [firm]]]]\n";
    return 2;
  }
  try {
    terngrad::dump_gradients(argv[1], argv[2], options);
  } catch (const std::exception& error) {
    std::cerr << "terngrad_dump_gradients: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
