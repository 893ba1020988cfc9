// A picture of an inspection: rate against distortion.
#pragma once

#include <string>

#include "trainers/inspect/inspection_report.h"

namespace terngrad {

/// An SVG image of every codec that loses something as a point: bits per element with headers, on a logarithmic axis,
/// against SNR in dB. Codecs without loss stand on the upper edge. Codecs of one name have one colour; labels are text,
/// moved apart where points are close. Readable on light and dark ground. Equal inspections give equal bytes, as speed
/// is not in it.
std::string rate_plot(const Inspection& inspection);

}  // namespace terngrad
