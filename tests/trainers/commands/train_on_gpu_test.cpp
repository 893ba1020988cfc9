// terngrad_train on a GPU: complete runs, runs that move between devices, and refused options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "nets/device_net.h"
#include "tests/support/bits.h"
#include "tests/support/cuda_device.h"
#include "tests/support/sanitized.h"
#include "tests/trainers/small_training.h"
#include "tests/trainers/train_runs.h"
#include "trainers/checkpoint/checkpoint.h"
#include "trainers/evaluate/evaluate.h"

namespace terngrad::train_on_gpu_test {
namespace {

namespace fs = std::filesystem;
using testing::CommandOutcome;
using ::testing::Contains;
using testing::expect_usage_error;
using ::testing::HasSubstr;
using testing::metrics_of;
using testing::remove_checkpoints_after;
using testing::TemporaryDirectory;
using testing::train;
using testing::operator+;
class CudaTrainCommand : public testing::CudaTest {};

std::vector<std::string> small_run(const fs::path& folder, const std::string& device) {
  return {"--device",
          device,
          "--train_dir",
          folder.string(),
          "--benchmark_mode",
          "--batch_size",
          "4",
          "--num_nodes",
          "2",
          "--grad_bits",
          "1",
          "--clip_factor",
          "2.5",
          "--image_size",
          "8",
          "--log_steps",
          "2",
          "--telemetry_steps",
          "2",
          "--save_iter",
          "2",
          "--optimizer",
          "adam",
          "--weight_decay",
          "0.004",
          "--quantize_logits",
          "--histogram_steps",
          "2"};
}

std::vector<std::string> steps(int count) { return {"--max_steps", std::to_string(count)}; }

/// Compares the tensors and fields of two telemetry lines.
void expect_same_fields(const nlohmann::json& line, const nlohmann::json& other) {
  for (const auto& [tensor, fields] : line.at("tensors").items()) {
    EXPECT_TRUE(fields.contains("clip_angle_degrees")) << tensor;
    for (const auto& [field, value] : fields.items()) {
      EXPECT_TRUE(other.at("tensors").at(tensor).contains(field)) << tensor << " " << field;
    }
  }
}

/// "step kind tensor" of each line of histograms.jsonl.
std::vector<std::string> histogram_names(const fs::path& run) {
  std::vector<std::string> names;
  std::istringstream text(testing::histograms_of(run));
  for (std::string text_of_line; std::getline(text, text_of_line);) {
    const auto line = nlohmann::json::parse(text_of_line);
    names.push_back(line.at("step").dump() + " " + line.at("kind").get<std::string>() + " " +
                    line.at("tensor").get<std::string>());
  }
  return names;
}

TEST_F(CudaTrainCommand, TrainsAndWritesWhatTheCpuWrites) {
  const TemporaryDirectory folder;
  const CommandOutcome gpu = train(small_run(folder / "gpu", "cuda") + steps(4));
  ASSERT_EQ(gpu.exit_code, kExitSuccess) << ::testing::PrintToString(gpu);
  EXPECT_THAT(gpu.err, HasSubstr("TF32"));
  const CommandOutcome cpu = train(small_run(folder / "cpu", "cpu") + steps(4));
  ASSERT_EQ(cpu.exit_code, kExitSuccess);
  const auto gpu_lines = metrics_of(folder / "gpu");
  const auto cpu_lines = metrics_of(folder / "cpu");
  ASSERT_EQ(gpu_lines.size(), cpu_lines.size());
  for (std::size_t i = 0; i < gpu_lines.size(); ++i) {
    EXPECT_EQ(gpu_lines[i].at("step"), cpu_lines[i].at("step"));
    EXPECT_EQ(gpu_lines[i].at("kind"), cpu_lines[i].at("kind"));
    if (gpu_lines[i].at("kind") == "tensors") expect_same_fields(gpu_lines[i], cpu_lines[i]);
    if (gpu_lines[i].at("kind") != "train") continue;
    EXPECT_NEAR(gpu_lines[i].at("loss"), cpu_lines[i].at("loss"), 0.05);
    EXPECT_GT(gpu_lines[i].at("wire_ratio"), 10);
    EXPECT_FALSE(gpu_lines[i].contains("compute_seconds"));
  }
  const std::vector<std::string> histograms = histogram_names(folder / "gpu");
  EXPECT_EQ(histograms, histogram_names(folder / "cpu"));
  EXPECT_THAT(histograms, Contains("4 mean conv1/weights"));
}

TEST_F(CudaTrainCommand, ARunGoesOnExactly) {
  const TemporaryDirectory folder;
  ASSERT_EQ(train(small_run(folder / "whole", "cuda") + steps(4)).exit_code, kExitSuccess);
  ASSERT_EQ(train(small_run(folder / "cut", "cuda") + steps(4)).exit_code, kExitSuccess);
  remove_checkpoints_after(folder / "cut", 2);
  const CommandOutcome resumed =
      train(small_run(folder / "cut", "cuda") + steps(4) + std::vector<std::string>{"--resume"});
  ASSERT_EQ(resumed.exit_code, kExitSuccess) << ::testing::PrintToString(resumed);
  EXPECT_EQ(read_file_text(checkpoint_path(folder / "cut", 4)), read_file_text(checkpoint_path(folder / "whole", 4)));
  EXPECT_EQ(metrics_of(folder / "cut"), metrics_of(folder / "whole"));
  EXPECT_EQ(testing::histograms_of(folder / "cut"), testing::histograms_of(folder / "whole"));
}

TEST_F(CudaTrainCommand, ARunMovesBetweenDevices) {
  const TemporaryDirectory folder;
  const std::vector<std::string> resume = {"--resume"};
  ASSERT_EQ(train(small_run(folder / "run", "cuda") + steps(2)).exit_code, kExitSuccess);
  const CommandOutcome on_cpu = train(small_run(folder / "run", "cpu") + steps(4) + resume);
  ASSERT_EQ(on_cpu.exit_code, kExitSuccess) << ::testing::PrintToString(on_cpu);
  EXPECT_THAT(on_cpu.err, HasSubstr("resumed after step 2"));
  EXPECT_THAT(on_cpu.err, HasSubstr("from here on its bits are those of cpu"));
  const CommandOutcome back = train(small_run(folder / "run", "cuda") + steps(6) + resume);
  ASSERT_EQ(back.exit_code, kExitSuccess) << ::testing::PrintToString(back);
  EXPECT_THAT(back.err, HasSubstr("resumed after step 4"));
  EXPECT_THAT(back.err, HasSubstr("the run was on cpu"));
  expect_usage_error(
      train(small_run(folder / "run", "cuda") + steps(8) + resume + std::vector<std::string>{"--math", "fp32"}),
      {"--math", "'fp32'", "'tf32'"});
  // Adam's moments and its number of updates are restored.
  const Checkpoint checkpoint = load_checkpoint(checkpoint_path(folder / "run", 6));
  EXPECT_EQ(checkpoint.state().extra_metadata.at("adam_updates"), "6");
  EXPECT_TRUE(checkpoint.has_group("slots/v"));
}

/// Expects a bit-identical resume on the GPU, then continues on the CPU. @returns the last checkpoint
Checkpoint moved(const fs::path& folder, const std::vector<std::string>& more) {
  const std::vector<std::string> resume = {"--resume"};
  const auto run = [&](const char* name, const char* device, int num_steps, const std::vector<std::string>& with = {}) {
    const CommandOutcome outcome = train(small_run(folder / name, device) + more + steps(num_steps) + with);
    ASSERT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  };
  run("whole", "cuda", 4);
  run("cut", "cuda", 4);
  remove_checkpoints_after(folder / "cut", 2);
  run("cut", "cuda", 4, resume);
  EXPECT_EQ(read_file_text(checkpoint_path(folder / "cut", 4)), read_file_text(checkpoint_path(folder / "whole", 4)));
  EXPECT_EQ(metrics_of(folder / "cut"), metrics_of(folder / "whole"));
  run("cut", "cpu", 6, resume);
  return load_checkpoint(checkpoint_path(folder / "cut", 6));
}

TEST_F(CudaTrainCommand, WhatWorkersKeepGoesOnExactlyAndMovesBetweenDevices) {
  const TemporaryDirectory folder;
  const Checkpoint last = moved(folder.path(), {"--error_feedback", "true", "--compress_from", "1"});
  EXPECT_TRUE(last.has_group("memory/ef/worker-0000"));
  EXPECT_TRUE(last.has_group("memory/ef/worker-0001"));
}

TEST_F(CudaTrainCommand, DirectionsGoOnExactlyAndMoveBetweenDevices) {
  const TemporaryDirectory folder;
  const Checkpoint last = moved(folder.path(), {"--optimizer", "zero_one_adam", "--variance_update_scaler", "1"});
  EXPECT_EQ(last.state().extra_metadata.at("zero_one_adam_updates"), "6");
  EXPECT_EQ(last.state().extra_metadata.at("zero_one_adam_variance_updates"), "3");  // steps 0, 1 and 3
}

TEST_F(CudaTrainCommand, WhatAllRanksKeepGoesOnExactlyAndMovesBetweenDevices) {
  const TemporaryDirectory folder;
  const Checkpoint last =
      moved(folder.path(), {"--codec_for", "*weights=powersgd:rank=1,min_ratio=1", "--error_feedback", "true"});
  EXPECT_TRUE(last.has_group("shared"));
}

TEST_F(CudaTrainCommand, FloatingEpochsAndFormatsOfDataDependentSizeRun) {
  const TemporaryDirectory folder;
  const CommandOutcome floating =
      train(small_run(folder / "floating", "cuda") + steps(2) + std::vector<std::string>{"--floating_grad_epoch", "2"});
  EXPECT_EQ(floating.exit_code, kExitSuccess) << ::testing::PrintToString(floating);
  const CommandOutcome tmask = train(small_run(folder / "tmask", "cuda") + steps(2) +
                                     std::vector<std::string>{"--ternary_format", "tmask", "--bucket_mb", "0.01"});
  EXPECT_EQ(tmask.exit_code, kExitSuccess) << ::testing::PrintToString(tmask);
  EXPECT_THAT(tmask.err, HasSubstr("the host waits"));
}

/// Final parameters of a run on one or more GPUs.
std::vector<std::uint32_t> parameters_after(const fs::path& run, int num_steps, const std::vector<std::string>& more) {
  const CommandOutcome outcome = train(small_run(run, "cuda") + steps(num_steps) + more);
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  const auto net = make_net("lenet", {8, 8, 1}, 10, {});
  std::vector<float> parameters(static_cast<std::size_t>(net->layout().flat_elements()));
  load_checkpoint(checkpoint_path(run, static_cast<std::uint64_t>(num_steps)))
      .read_group("parameters", net->layout(), parameters);
  return testing::bits_of(std::span<const float>(parameters));
}

TEST_F(CudaTrainCommand, GradientsThatTheCpuExchangesGiveTheBitsOfThoseThatGpusDo) {
  constexpr int kSteps = testing::scaled(3, 2);
  const TemporaryDirectory folder;
  const auto on_gpus = parameters_after(folder / "gpus", kSteps, {});
  const std::vector<std::string> served = {"--strategy", "ps", "--pull", "parameters"};
  EXPECT_EQ(parameters_after(folder / "served", kSteps, served), on_gpus);
  expect_usage_error(train(small_run(folder / "scattered", "cuda") + steps(2) +
                           std::vector<std::string>{"--strategy", "ps", "--exchange", "all_gather"}),
                     {"--exchange all_gather", "servers"});
}

TEST_F(CudaTrainCommand, WhatServersHoldGoesOnExactly) {
  const TemporaryDirectory folder;
  const std::vector<std::string> rounded = {"--strategy", "ps", "--pull", "parameters", "--downlink_codec", "bf16"};
  ASSERT_EQ(train(small_run(folder / "whole", "cuda") + steps(4) + rounded).exit_code, kExitSuccess);
  ASSERT_EQ(train(small_run(folder / "cut", "cuda") + steps(4) + rounded).exit_code, kExitSuccess);
  remove_checkpoints_after(folder / "cut", 2);
  const CommandOutcome resumed =
      train(small_run(folder / "cut", "cuda") + steps(4) + rounded + std::vector<std::string>{"--resume"});
  ASSERT_EQ(resumed.exit_code, kExitSuccess) << ::testing::PrintToString(resumed);
  EXPECT_EQ(read_file_text(checkpoint_path(folder / "cut", 4)), read_file_text(checkpoint_path(folder / "whole", 4)));
}

TEST_F(CudaTrainCommand, TimesAreTakenWhereTheCpuHasAPartInEachStep) {
  const TemporaryDirectory folder;
  const CommandOutcome run =
      train(small_run(folder / "run", "cuda") + steps(12) +
            std::vector<std::string>{"--strategy", "ps", "--pull", "parameters", "--profile", "--trace_steps", "1"});
  ASSERT_EQ(run.exit_code, kExitSuccess) << ::testing::PrintToString(run);
  EXPECT_THAT(run.err, HasSubstr("GPUs compute gradients, which are encoded, exchanged and applied by the CPU"));
  EXPECT_THAT(run.out, HasSubstr("compute"));
  EXPECT_TRUE(fs::exists(folder / "run" / "trace.json"));
}

TEST_F(CudaTrainCommand, AsynchronousWorkersComputeOnGpus) {
  constexpr int kSteps = 6;
  const TemporaryDirectory folder;
  const auto losses = [&](const std::string& name, const std::string& device, const std::vector<std::string>& more) {
    const CommandOutcome outcome = train(small_run(folder / name, device) + steps(kSteps) +
                                         std::vector<std::string>{"--strategy", "async"} + more);
    EXPECT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
    std::vector<double> found;
    for (const auto& line : metrics_of(folder / name)) {
      if (line.at("kind") == "train") found.push_back(line.at("loss"));
    }
    return found;
  };
  const std::vector<double> on_gpu = losses("gpu", "cuda", {"--math", "fp32"});
  EXPECT_FALSE(on_gpu.empty());
  EXPECT_THAT(losses("cpu", "cpu", {}), ::testing::Pointwise(::testing::DoubleNear(0.05), on_gpu));
}

TEST_F(CudaTrainCommand, AsynchronousWorkersGoOnExactlyAndMoveBetweenDevices) {
  const TemporaryDirectory folder;
  const std::vector<std::string> async = {"--strategy", "async"};
  const std::vector<std::string> resume = {"--resume"};
  ASSERT_EQ(train(small_run(folder / "whole", "cuda") + steps(4) + async).exit_code, kExitSuccess);
  ASSERT_EQ(train(small_run(folder / "cut", "cuda") + steps(4) + async).exit_code, kExitSuccess);
  remove_checkpoints_after(folder / "cut", 2);
  ASSERT_EQ(train(small_run(folder / "cut", "cuda") + steps(4) + async + resume).exit_code, kExitSuccess);
  EXPECT_EQ(read_file_text(checkpoint_path(folder / "cut", 4)), read_file_text(checkpoint_path(folder / "whole", 4)));
  const CommandOutcome on_cpu = train(small_run(folder / "cut", "cpu") + steps(6) + async + resume);
  ASSERT_EQ(on_cpu.exit_code, kExitSuccess) << ::testing::PrintToString(on_cpu);
  EXPECT_THAT(on_cpu.err, HasSubstr("from here on its bits are those of cpu"));
}

TEST_F(CudaTrainCommand, GpusAreTakenWhereThereAreAny) {
  const TemporaryDirectory folder;
  for (const auto& options : std::vector<std::vector<std::string>>{
           {"--strategy", "async"}, {"--strategy", "ps", "--pull", "parameters"}, {"--strategy", "replicated"}}) {
    const CommandOutcome run = train(small_run(folder / options[1], "auto") + steps(2) + options);
    ASSERT_EQ(run.exit_code, kExitSuccess) << ::testing::PrintToString(run);
    EXPECT_THAT(run.err, HasSubstr("TF32")) << options[1];
  }
}

TEST_F(CudaTrainCommand, ExchangesChangeNoBitOfTheModel) {
  constexpr int kSteps = testing::scaled(3, 2);
  const TemporaryDirectory folder;
  const auto after = [&](const std::string& name, const std::vector<std::string>& more) {
    return parameters_after(folder / name, kSteps, more);
  };
  const auto gathered = after("gathered", {"--exchange", "all_gather"});
  EXPECT_EQ(after("auto", {}), gathered);
  EXPECT_EQ(after("scattered", {"--exchange", "scatter_reduce"}), gathered);
  EXPECT_EQ(after("served", {"--strategy", "ps"}), gathered);
  // To and from the server, whichever process hosts it.
  const auto served = metrics_of(folder / "served").at(0);
  EXPECT_GT(served.at("wire_bytes_per_worker").at("sent").at("gradient"), 0);
  EXPECT_GT(served.at("wire_bytes_per_worker").at("received").at("mean"), 0);
  EXPECT_GT(served.at("wire_bytes_per_server").at("sent"), 0);
  EXPECT_EQ(after("sums", {"--downlink_codec", "sums", "--floating_grad_epoch", "1000"}), gathered);
  EXPECT_EQ(after("summed", {"--exchange", "integer_sum"}), gathered);
  EXPECT_EQ(after("in_buckets", {"--bucket_mb", "0.01", "--overlap", "off"}), gathered);
  EXPECT_EQ(after("overlapped", {"--bucket_mb", "0.01", "--overlap", "on"}), gathered);
  EXPECT_EQ(metrics_of(folder / "overlapped"), metrics_of(folder / "in_buckets"));
}

TEST_F(CudaTrainCommand, OptionsWithoutEffectOnAGpuAreRefused) {
  const TemporaryDirectory folder;
  const auto refuse = [&](const std::vector<std::string>& more, const std::vector<std::string>& words) {
    expect_usage_error(train(small_run(folder / "run", "cuda") + steps(2) + more), words);
  };
  refuse({"--threads_per_worker", "1"}, {"--threads_per_worker", "--device cpu"});
  refuse({"--exchange", "all_gather", "--downlink_codec", "sums"}, {"--downlink_codec sums", "scatter_reduce"});
  refuse({"--num_gpus", "3"}, {"--num_gpus 3"});
  refuse({"--strategy", "ps", "--pull", "parameters", "--exchange_timeout", "5"},
         {"--exchange_timeout", "that exchange gradients"});
  refuse({"--strategy", "ps", "--pull", "parameters", "--overlap", "on"}, {"--overlap on", "--pull gradient"});
  refuse({"--profile"}, {"--profile", "--device cpu"});
  refuse({"--trace_steps", "1"}, {"--trace_steps", "--device cpu"});
  refuse({"--ternary_format", "trans"}, {"--ternary_format trans has no kernels for GPUs", "t2, t5, tmask"});
  refuse({"--codec", "ternary:format=trans"}, {"--codec ternary:format=trans: format=trans has no kernels for GPUs"});
  refuse({"--overlap", "on", "--ternary_format", "tmask"},
         {"--overlap on", "--ternary_format than tmask", "accepted here: auto"});
  refuse({"--overlap", "on", "--clip_by_global_norm", "1"},
         {"--overlap on", "--clip_by_global_norm", "accepted here: auto"});
  refuse({"--bucket_mb", "1", "--scaler_scope", "model"}, {"--bucket_mb", "--scaler_scope"});
  EXPECT_FALSE(fs::exists(folder / "run"));
}

TEST_F(CudaTrainCommand, EvaluationOnAGpuIsTheCpus) {
  const auto digits = testing::small_digits(260, 8);
  const ImageShape shape{8, 8, 1};
  const auto cpu = make_net("lenet", shape, 10, {});
  const auto gpu = make_device_net("lenet", shape, 10, {}, MathMode::kFp32, Stream(Device::cuda()));
  Buffer<float> parameters(cpu->layout().flat_elements());
  cpu->initialize(3, parameters.span());
  const Evaluation expected = evaluate(*cpu, parameters.span(), {}, *digits);
  const Evaluation found = evaluate(*gpu, parameters.span(), {}, *digits);
  EXPECT_EQ(found.num_examples, 260);
  EXPECT_NEAR(found.loss, expected.loss, 1e-5);
  EXPECT_NEAR(found.top1, expected.top1, 0.01);
}

TEST(TrainOnCpu, OptionsOfGpusAreRefused) {
  const TemporaryDirectory folder;
  const std::string run = (folder / "run").string();
  expect_usage_error(train({"--device", "cpu", "--train_dir", run, "--math", "fp32"}), {"--math", "--device cuda"});
  expect_usage_error(train({"--device", "cpu", "--train_dir", run, "--num_gpus", "1"}), {"--num_gpus"});
  EXPECT_FALSE(fs::exists(run));
}

}  // namespace
}  // namespace terngrad::train_on_gpu_test
