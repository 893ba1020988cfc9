#include "trainers/evaluate/evaluation_log.h"

#include <fcntl.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

#include "kernels/runtime/errors.h"
#include "trainers/io/atomic_file.h"
#include "trainers/io/metrics_events.h"

namespace terngrad {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMetricsName = "metrics.jsonl";

fs::path created(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) throw_file_error("create the folder", directory, error.value());
  return directory;
}

Folder locked(const fs::path& directory) {
  Folder folder(created(directory));
  if (folder.try_lock()) return folder;
  TERNGRAD_THROW(UsageError, "--eval_dir ", directory.string(),
                 ": is in use by another process; wait for it, or give each its own folder");
}

/// A number of a metrics line; null is read as NaN.
double number_of(const nlohmann::json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

/// The results in a metrics file, by step.
std::map<std::uint64_t, RecordedEvaluation> recorded_results(const Folder& folder, const EvaluationSubject& subject) {
  std::map<std::uint64_t, RecordedEvaluation> results;
  const FileDescriptor file = folder.open(kMetricsName, O_RDONLY);
  std::istringstream lines(read_file_text(file));
  std::int64_t line_number = 0;
  for (std::string text; std::getline(lines, text);) {
    ++line_number;
    EvaluationSubject found;
    try {
      const nlohmann::json line = nlohmann::json::parse(text);
      found = {.dataset = line.at("dataset").get<std::string>(),
               .subset = line.at("kind").get<std::string>(),
               .weights = line.at("weights").get<std::string>(),
               .num_examples = line.at("examples").get<std::int64_t>(),
               .data_fingerprint = line.value("data_fingerprint", "")};
      results[line.at("step").get<std::uint64_t>()] = {.checksum = line.at("checkpoint").get<std::string>(),
                                                       .evaluation = {.top1 = number_of(line.at("top1")),
                                                                      .top5 = number_of(line.at("top5")),
                                                                      .loss = number_of(line.at("loss")),
                                                                      .num_examples = found.num_examples}};
    } catch (const nlohmann::json::exception&) {
      TERNGRAD_THROW(DataError, "'", file.path().string(), "' line ", line_number, " is not a result of terngrad_eval");
    }
    if (found != subject) {
      TERNGRAD_THROW(UsageError, "--eval_dir ", folder.path().string(), ": holds results of ", to_string(found),
                     ", these would be of ", to_string(subject), "; give these their own folder");
    }
  }
  return results;
}

}  // namespace

std::string to_string(const EvaluationSubject& subject) {
  return subject.weights + " weights on " + std::to_string(subject.num_examples) + " examples of " + subject.dataset +
         " " + subject.subset + " (data " + (subject.data_fingerprint.empty() ? "unknown" : subject.data_fingerprint) +
         ")";
}

// Opens the writer before the results are read, because it removes a partial last line.
EvaluationLog::EvaluationLog(const fs::path& directory, EvaluationSubject subject)
    : subject_(std::move(subject)),
      folder_(locked(directory)),
      metrics_(folder_, kMetricsName),
      results_(recorded_results(folder_, subject_)),
      events_(folder_) {
  follow_metrics(metrics_, events_);
}

void EvaluationLog::write(std::uint64_t step, const std::string& checksum, const Evaluation& evaluation) {
  metrics_.write({{"step", step},
                  {"kind", subject_.subset},
                  {"weights", subject_.weights},
                  {"top1", evaluation.top1},
                  {"top5", evaluation.top5},
                  {"loss", evaluation.loss},
                  {"examples", evaluation.num_examples},
                  {"dataset", subject_.dataset},
                  {"data_fingerprint", subject_.data_fingerprint},
                  {"checkpoint", checksum}});
  results_[step] = {checksum, evaluation};
}

const Evaluation* EvaluationLog::find(std::uint64_t step, const std::string& checksum) const {
  const auto result = results_.find(step);
  if (result == results_.end()) return nullptr;
  if (result->second.checksum != checksum) {
    TERNGRAD_THROW(UsageError, "--eval_dir ", folder_.path().string(),
                   ": holds the result of another checkpoint of step ", step, "; give each run its own folder");
  }
  return &result->second.evaluation;
}

}  // namespace terngrad
