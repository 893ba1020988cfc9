// Choices: the words of the enumerations in train_choices.h and others.
#pragma once

#include <array>

#include "trainers/command_line/choice.h"
#include "trainers/options/train_choices.h"

namespace terngrad {

template <>
struct Choices<TrainStrategy> {
  static constexpr std::array<Choice<TrainStrategy>, 5> kAll = {{{"auto", TrainStrategy::kAuto},
                                                                 {"simple", TrainStrategy::kSimple},
                                                                 {"replicated", TrainStrategy::kReplicated},
                                                                 {"ps", TrainStrategy::kParameterServers},
                                                                 {"async", TrainStrategy::kAsync}}};
};

template <>
struct Choices<Pull> {
  static constexpr std::array<Choice<Pull>, 2> kAll = {
      {{"gradient", Pull::kGradient}, {"parameters", Pull::kParameters}}};
};

template <>
struct Choices<TrainExchange> {
  static constexpr std::array<Choice<TrainExchange>, 5> kAll = {{{"auto", TrainExchange::kAuto},
                                                                 {"all_gather", TrainExchange::kAllGather},
                                                                 {"scatter_reduce", TrainExchange::kScatterReduce},
                                                                 {"integer_sum", TrainExchange::kIntegerSum},
                                                                 {"vendor", TrainExchange::kVendor}}};
};

template <>
struct Choices<Reduce> {
  static constexpr std::array<Choice<Reduce>, 2> kAll = {{{"average", Reduce::kAverage}, {"sum", Reduce::kSum}}};
};

template <>
struct Choices<Overlap> {
  static constexpr std::array<Choice<Overlap>, 3> kAll = {
      {{"auto", Overlap::kAuto}, {"on", Overlap::kOn}, {"off", Overlap::kOff}}};
};

template <>
struct Choices<Augment> {
  static constexpr std::array<Choice<Augment>, 2> kAll = {{{"on", Augment::kOn}, {"off", Augment::kOff}}};
};

template <>
struct Choices<Shuffle> {
  static constexpr std::array<Choice<Shuffle>, 2> kAll = {{{"exact", Shuffle::kExact}, {"window", Shuffle::kWindow}}};
};

template <>
struct Choices<ScheduleKind> {
  static constexpr std::array<Choice<ScheduleKind>, 4> kAll = {{{"fixed", ScheduleKind::kFixed},
                                                                {"polynomial", ScheduleKind::kPolynomial},
                                                                {"exponential", ScheduleKind::kExponential},
                                                                {"steps", ScheduleKind::kSteps}}};
};

template <>
struct Choices<ErrorFeedback> {
  static constexpr std::array<Choice<ErrorFeedback>, 3> kAll = {
      {{"auto", ErrorFeedback::kAuto}, {"true", ErrorFeedback::kTrue}, {"false", ErrorFeedback::kFalse}}};
};

template <>
struct Choices<OnSaveError> {
  static constexpr std::array<Choice<OnSaveError>, 2> kAll = {
      {{"stop", OnSaveError::kStop}, {"continue", OnSaveError::kContinue}}};
};

}  // namespace terngrad
