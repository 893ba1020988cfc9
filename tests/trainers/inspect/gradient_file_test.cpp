#include "trainers/inspect/gradient_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/float16.h"
#include "tests/trainers/gradient_files.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::gradient_file_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::npy_of;
using testing::TemporaryDirectory;
using testing::write_tensors;

std::vector<float> elements_of(const GradientFile& file, int segment, std::size_t worker = 0) {
  const Segment& place = file.layout.segment(segment);
  const float* const begin = file.workers.at(worker).data() + place.offset;
  return {begin, begin + place.num_elements};
}

void expect_refused(const fs::path& path, const std::vector<std::string>& words) {
  const std::string message = testing::message_of<DataError>([&] { read_gradient_file(path); });
  EXPECT_THAT(message, HasSubstr(path.string()));
  EXPECT_THAT(message, ::testing::Not(HasSubstr("\n")));
  for (const std::string& word : words) EXPECT_THAT(message, HasSubstr(word));
}

TEST(GradientFile, ReadsArraysOfEveryFloat) {
  const TemporaryDirectory folder;
  const GradientFile narrow = read_gradient_file(
      folder.write("a.npy", npy_of<std::uint16_t>({to_float16(0.5f), to_float16(-6e-8f), to_float16(65504.f)}, {3})));
  EXPECT_THAT(elements_of(narrow, 0), ElementsAre(0.5f, -0x1p-24f, 65504.f));
  const GradientFile plain = read_gradient_file(folder.write("b.npy", npy_of<float>({1, -2, 3, 4}, {2, 2})));
  EXPECT_THAT(elements_of(plain, 0), ElementsAre(1, -2, 3, 4));
  EXPECT_THAT(plain.layout.segment(0).shape, ElementsAre(2, 2));
  EXPECT_EQ(plain.layout.segment(0).name, "tensor");
  // Rounds to nearest fp32, ties to even.
  const GradientFile wide =
      read_gradient_file(folder.write("c.npy", npy_of<double>({0.1, 1 + 0x1p-24, 0x1.fffffep127}, {3})));
  EXPECT_THAT(elements_of(wide, 0), ElementsAre(0.1f, 1.f, std::numeric_limits<float>::max()));
  const GradientFile scalar = read_gradient_file(folder.write("d.npy", npy_of<float>({7}, {})));
  EXPECT_THAT(elements_of(scalar, 0), ElementsAre(7));
}

TEST(GradientFile, ReadsTensorsOfEveryFloatAndEmptyOnes) {
  const TemporaryDirectory folder;
  const std::array<std::uint16_t, 2> half = {to_float16(0.25f), to_float16(3)};
  const std::array<std::uint16_t, 1> brain = {to_bfloat16(-1.5f)};
  const std::array<double, 1> wide = {1e-3};
  const std::array<float, 2> plain = {8, 9};
  write_safetensors(folder / "a.safetensors",
                    std::vector<TensorRecord>{{"wide", TensorType::kF64, {1}, std::as_bytes(std::span(wide))},
                                              {"plain", TensorType::kF32, {2}, std::as_bytes(std::span(plain))},
                                              {"none", TensorType::kF32, {4, 0}, {}},
                                              {"half", TensorType::kF16, {1, 2}, std::as_bytes(std::span(half))},
                                              {"brain", TensorType::kBf16, {}, std::as_bytes(std::span(brain))}},
                    {});
  const GradientFile file = read_gradient_file(folder / "a.safetensors");
  ASSERT_EQ(file.layout.num_segments(), 5);
  EXPECT_THAT(elements_of(file, file.layout.find("wide")), ElementsAre(1e-3f));
  EXPECT_THAT(elements_of(file, file.layout.find("plain")), ElementsAre(8, 9));
  EXPECT_THAT(elements_of(file, file.layout.find("none")), ElementsAre());
  EXPECT_THAT(elements_of(file, file.layout.find("half")), ElementsAre(0.25f, 3));
  EXPECT_THAT(elements_of(file, file.layout.find("brain")), ElementsAre(-1.5f));
}

TEST(GradientFile, TellsWorkersByNames) {
  const TemporaryDirectory folder;
  write_tensors(folder / "a.safetensors", {{"worker-0001/b", {1}, {4}},
                                           {"worker-0000/a", {2}, {1, 2}},
                                           {"worker-0000/b", {1}, {3}},
                                           {"worker-0001/a", {2}, {5, 6}}});
  const GradientFile file = read_gradient_file(folder / "a.safetensors");
  ASSERT_EQ(file.workers.size(), 2u);
  EXPECT_EQ(file.layout.segment(0).name, "a");
  EXPECT_THAT(elements_of(file, 0, 1), ElementsAre(5, 6));
  EXPECT_THAT(elements_of(file, 1, 0), ElementsAre(3));
  // With another name in the file, all tensors belong to one worker.
  write_tensors(folder / "b.safetensors", {{"worker-0000/a", {1}, {1}}, {"bias", {1}, {2}}});
  EXPECT_EQ(read_gradient_file(folder / "b.safetensors").workers.size(), 1u);
}

TEST(GradientFile, WorkersThatDifferAreRefused) {
  const TemporaryDirectory folder;
  const fs::path path = folder / "a.safetensors";
  write_tensors(path, {{"worker-0000/a", {1}, {1}}, {"worker-0001/b", {1}, {1}}});
  expect_refused(path, {"worker 1", "other tensors"});
  write_tensors(path, {{"worker-0000/a", {2}, {1, 2}}, {"worker-0001/a", {1, 2}, {1, 2}}});
  expect_refused(path, {"worker 1", "other tensors"});
  write_tensors(path, {{"worker-0001/a", {1}, {1}}, {"worker-0001/b", {1}, {1}}});
  expect_refused(path, {"worker 1", "other tensors"});
  write_tensors(path, {{"worker-9999/a", {1}, {1}}});
  expect_refused(path, {"worker-9999/a"});
}

TEST(GradientFile, DamagedAndForeignFilesAreRefused) {
  const TemporaryDirectory folder;
  expect_refused(folder / "none.npy", {"does not exist"});
  expect_refused(folder.write("a.bin", npy_of<float>({1}, {1})), {"neither .npy nor .safetensors"});
  expect_refused(folder.write("a.npy", "PK and more"), {"not a .npy file"});
  expect_refused(folder.write("b.npy", ""), {"truncated"});
  const std::string whole = npy_of<float>({1, 2, 3}, {3});
  expect_refused(folder.write("c.npy", whole.substr(0, whole.size() - 1)), {"truncated"});
  expect_refused(folder.write("d.npy", whole + "x"), {"trailing"});
  expect_refused(folder.write("e.npy", npy_beginning(NpyKind::kSigned, 4, {1}) + "1234"), {"holds integers"});
  std::string fortran = npy_of<float>({1, 2}, {1, 2});
  fortran.replace(fortran.find("False"), 5, "True ");
  expect_refused(folder.write("f.npy", fortran), {"fortran_order", "ascontiguousarray"});
  expect_refused(folder.write("a.safetensors", "no header"), {"not a valid safetensors file"});
  write_tensors(folder / "b.safetensors", {{"a", {2}, {1, 2}}});
  fs::resize_file(folder / "b.safetensors", fs::file_size(folder / "b.safetensors") - 1);
  expect_refused(folder / "b.safetensors", {"truncated"});
  const std::array<std::int64_t, 1> steps = {7};
  write_safetensors(folder / "c.safetensors",
                    std::vector<TensorRecord>{{"steps", TensorType::kI64, {1}, std::as_bytes(std::span(steps))}}, {});
  expect_refused(folder / "c.safetensors", {"'steps' (I64)", "F16, BF16, F32, F64"});
}

TEST(GradientFile, TensorsOfOtherTypesAreLeftOutAndNamed) {
  const TemporaryDirectory folder;
  const std::array<std::int64_t, 1> steps = {7};
  const std::array<float, 2> values = {1, 2};
  write_safetensors(folder / "a.safetensors",
                    std::vector<TensorRecord>{{"steps", TensorType::kI64, {1}, std::as_bytes(std::span(steps))},
                                              {"w", TensorType::kF32, {2}, std::as_bytes(std::span(values))}},
                    {});
  EXPECT_THAT(read_gradient_file(folder / "a.safetensors").left_out, ElementsAre("'steps' (I64)"));
  // A type unknown to this reader: 3 bytes for a shape of 5, after the others.
  const std::string header =
      R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"q":{"dtype":"F4","shape":[5],"data_offsets":[8,11]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  file += header + std::string(reinterpret_cast<const char*>(values.data()), 8) + "abc";
  const GradientFile found = read_gradient_file(folder.write("b.safetensors", file));
  EXPECT_THAT(found.left_out, ElementsAre("'q' (F4)"));
  ASSERT_EQ(found.layout.num_segments(), 1);
  EXPECT_THAT(found.workers[0].span().first(2), ElementsAre(1, 2));
  expect_refused(folder.write("c.safetensors", file + "d"), {"12 bytes of data"});
}

TEST(GradientFile, NumbersThatAreNotFiniteAreNamed) {
  const TemporaryDirectory folder;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  write_tensors(folder / "a.safetensors", {{"fine", {1}, {1}}, {"conv/weights", {4}, {1, nan, 2, -INFINITY}}});
  expect_refused(folder / "a.safetensors", {"'conv/weights'", "2 of 4 elements", "first element 1 (nan)"});
  write_tensors(folder / "b.safetensors", {{"worker-0000/a", {1}, {1}}, {"worker-0001/a", {1}, {INFINITY}}});
  expect_refused(folder / "b.safetensors", {"'a' of worker '1'", "1 of 1", "(inf)"});
  expect_refused(folder.write("c.npy", npy_of<double>({0, -1e300}, {2})), {"first element 1 (-inf)", "beyond fp32"});
  // The smallest value that rounds to 2^128.
  expect_refused(folder.write("d.npy", npy_of<double>({0x1.ffffffp127}, {1})), {"beyond fp32"});
}

TEST(GradientFile, NothingToEncodeIsRefused) {
  const TemporaryDirectory folder;
  expect_refused(folder.write("a.npy", npy_of<float>({}, {0, 3})), {"no elements"});
  write_tensors(folder / "a.safetensors", {{"a", {0}, {}}});
  expect_refused(folder / "a.safetensors", {"no elements"});
  write_tensors(folder / "b.safetensors", {});
  expect_refused(folder / "b.safetensors", {"no tensors"});
}

TEST(GradientFile, MoreElementsThanTheLimitAreRefusedBeforeTheyAreRead) {
  const TemporaryDirectory folder;
  constexpr std::int64_t kTooMany = kMaxFileElements + 1;
  // A sparse file: complete, but without disk space.
  const fs::path sparse = folder.write("a.npy", npy_beginning(NpyKind::kFloat, 2, {kTooMany}));
  fs::resize_file(sparse, fs::file_size(sparse) + 2 * kTooMany);
  expect_refused(sparse, {"at most 2147483648"});
  expect_refused(folder.write("b.npy", npy_beginning(NpyKind::kFloat, 4, {std::int64_t{1} << 20, 1 << 20})),
                 {"at most 2147483648"});
  const fs::path tensors = folder.write("a.safetensors", "");
  fs::resize_file(tensors, std::uintmax_t{1} << 35);
  expect_refused(tensors, {"34359738368 bytes", "2147483648 elements"});
  // A short file that declares many elements.
  expect_refused(folder.write("c.npy", npy_beginning(NpyKind::kFloat, 4, {1 << 30})), {"truncated"});
}

TEST(ListGradientFiles, GivesAFolderInOrderOfSteps) {
  const TemporaryDirectory folder;
  for (const char* name : {"step-10.safetensors", "step-0000000002.safetensors", "step-3.npy", "step-x.npy", "notes",
                           "step-4.txt", ".step-1.npy.0.tmp"}) {
    folder.write(name, "");
  }
  const auto files = list_gradient_files(folder.path());
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[0], (std::pair<std::uint64_t, fs::path>(2, folder / "step-0000000002.safetensors")));
  EXPECT_EQ(files[1], (std::pair<std::uint64_t, fs::path>(3, folder / "step-3.npy")));
  EXPECT_EQ(files[2], (std::pair<std::uint64_t, fs::path>(10, folder / "step-10.safetensors")));
  EXPECT_EQ(list_gradient_files(folder / "step-3.npy").size(), 1u);
  folder.write("step-02.npy", "");
  EXPECT_THAT(testing::message_of<DataError>([&] { list_gradient_files(folder.path()); }), HasSubstr("step 2 twice"));
}

TEST(ListGradientFiles, FindsThoseOfARun) {
  const TemporaryDirectory run;
  fs::create_directory(run / "gradients");
  EXPECT_THAT(testing::message_of<DataError>([&] { list_gradient_files(run.path()); }),
              HasSubstr("--dump_gradients N"));
  run.write("gradients/step-1.npy", "");
  EXPECT_EQ(list_gradient_files(run.path()).at(0).second, run / "gradients" / "step-1.npy");
}

}  // namespace
}  // namespace terngrad::gradient_file_test
