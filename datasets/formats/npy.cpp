#include "datasets/formats/npy.h"

#include <set>
#include <string_view>

#include "datasets/formats/file_kind.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxDimensions = 32;  // NumPy's own limit
constexpr std::int64_t kMaxElements = std::int64_t{1} << 48;

/// Parser of the header's dictionary, with strings, True, False and tuples of numbers: all that NumPy writes for plain
/// arrays.
class HeaderParser {
 public:
  HeaderParser(const std::string& file, std::string_view text) : file_(file), text_(text) {}

  void parse(NpyArray& array) {
    std::set<std::string_view> seen;
    expect('{');
    while (!take('}')) {
      const std::string_view key = read_string();
      if (!seen.insert(key).second) refuse("the key '" + std::string(key) + "' twice");
      expect(':');
      if (key == "descr") {
        read_element_type(array);
      } else if (key == "fortran_order") {
        read_order();
      } else if (key == "shape") {
        array.shape = read_shape();
      } else {
        refuse("the unknown key '" + std::string(key) + "'");
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (position_ != text_.size()) refuse("text after the dictionary");
    if (seen.size() != 3) refuse("a dictionary without all of descr, fortran_order and shape");
  }

 private:
  [[noreturn]] void refuse(const std::string& found) const {
    TERNGRAD_THROW(DataError, "[npy] '", file_,
                   "': field header: expected a dictionary of descr, fortran_order and shape, found ", found,
                   " at character ", position_);
  }

  void skip_space() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n')) ++position_;
  }

  bool take(char expected) {
    skip_space();
    if (position_ == text_.size() || text_[position_] != expected) return false;
    ++position_;
    return true;
  }

  bool take_word(std::string_view word) {
    skip_space();
    if (!text_.substr(position_).starts_with(word)) return false;
    position_ += word.size();
    return true;
  }

  void expect(char expected) {
    if (take(expected)) return;
    refuse(position_ == text_.size() ? std::string("its end") : "'" + std::string(1, text_[position_]) + "'");
  }

  std::string_view read_string() {
    const char quote = take('"') ? '"' : '\'';
    if (quote == '\'') expect('\'');
    const std::size_t end = text_.find(quote, position_);
    if (end == std::string_view::npos) refuse("a string without end");
    const std::string_view result = text_.substr(position_, end - position_);
    position_ = end + 1;
    return result;
  }

  void read_element_type(NpyArray& array) {
    skip_space();
    const bool is_structure = position_ < text_.size() && text_[position_] == '[';
    const std::string_view type = is_structure ? "a structure" : read_string();
    const auto is_digit_of = [&](std::string_view sizes) {
      return type.size() == 3 && sizes.find(type[2]) != std::string_view::npos;
    };
    const bool little = type.starts_with('<') || (type.starts_with('|') && is_digit_of("1"));
    const char kind = little && type.size() == 3 ? type[1] : '?';
    if ((kind == 'i' || kind == 'u') && is_digit_of("1248")) {
      array.kind = kind == 'i' ? NpyKind::kSigned : NpyKind::kUnsigned;
    } else if (kind == 'f' && is_digit_of("248")) {
      array.kind = NpyKind::kFloat;
    } else {
      TERNGRAD_THROW(DataError, "[npy] '", file_,
                     "': field descr: expected little-endian integers or floats ('|u1', '<i8', '<f4'", " ...), found ",
                     type);
    }
    array.element_bytes = static_cast<std::size_t>(type[2] - '0');
  }

  void read_order() {
    if (take_word("False")) return;
    if (!take_word("True")) refuse("something else than True or False for fortran_order");
    TERNGRAD_THROW(DataError, "[npy] '", file_, "': field fortran_order: expected False, found True; save it with ",
                   "numpy.ascontiguousarray");
  }

  std::vector<std::int64_t> read_shape() {
    std::vector<std::int64_t> shape;
    expect('(');
    while (!take(')')) {
      if (shape.size() == kMaxDimensions) refuse("more than 32 dimensions");
      shape.push_back(read_number());
      take('L');  // Python 2 wrote 3L
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }

  std::int64_t read_number() {
    skip_space();
    const std::size_t begin = position_;
    std::int64_t value = 0;
    while (position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9') {
      value = value * 10 + (text_[position_++] - '0');
      if (value > kMaxElements) refuse("a dimension above 2^48");
    }
    if (position_ == begin) refuse("something else than a number in the shape");
    return value;
  }

  const std::string& file_;
  std::string_view text_;
  std::size_t position_ = 0;
};

std::span<const std::uint8_t> take_bytes(const std::string& file, std::span<const std::uint8_t>& rest,
                                         std::size_t count, const char* field) {
  if (rest.size() < count) {
    TERNGRAD_THROW(DataError, "[npy] '", file, "' is truncated in field ", field, ": expected ", count,
                   " bytes, found ", rest.size());
  }
  const std::span<const std::uint8_t> result = rest.first(count);
  rest = rest.subspan(count);
  return result;
}

std::string_view as_text(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The product of the sizes, 0 if any is 0. @throws DataError if a partial product exceeds the limit
std::int64_t count_elements(const std::string& file, const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t side : shape) {
    if (side == 0) return 0;
    if (count > kMaxElements / side) {
      TERNGRAD_THROW(DataError, "[npy] '", file, "': field shape: expected at most 2^48 elements, found ",
                     shape_text(shape));
    }
    count *= side;
  }
  return count;
}

}  // namespace

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t side : shape) text += (text.empty() ? "" : ", ") + std::to_string(side);
  return "[" + text + "]";
}

namespace {

/// Parses the header. @param rest  out: the bytes after it
NpyArray take_header(const std::string& file, std::span<const std::uint8_t>& rest) {
  const std::span<const std::uint8_t> all = rest;
  if (as_text(take_bytes(file, rest, kMagic.size(), "magic")) != kMagic) {
    TERNGRAD_THROW(DataError, "[npy] '", file, "' is not a .npy file: it does not begin with \\x93NUMPY",
                   looks_like(all));
  }
  const std::span<const std::uint8_t> version = take_bytes(file, rest, 2, "version");
  if (version[0] < 1 || version[0] > 3 || version[1] != 0) {
    TERNGRAD_THROW(DataError, "[npy] '", file, "': field version: expected 1.0, 2.0 or 3.0, found ", int{version[0]},
                   ".", int{version[1]});
  }
  const std::span<const std::uint8_t> length = take_bytes(file, rest, version[0] == 1 ? 2 : 4, "header length");
  std::size_t header_bytes = 0;
  for (std::size_t i = length.size(); i-- > 0;) header_bytes = header_bytes << 8 | length[i];
  if (header_bytes > kMaxNpyHeaderBytes) {
    TERNGRAD_THROW(DataError, "[npy] '", file, "': field header length: expected at most ", kMaxNpyHeaderBytes,
                   ", found ", header_bytes);
  }
  NpyArray array;
  HeaderParser(file, as_text(take_bytes(file, rest, header_bytes, "header"))).parse(array);
  array.num_elements = count_elements(file, array.shape);
  return array;
}

std::uint64_t num_data_bytes(const NpyArray& array) {
  return static_cast<std::uint64_t>(array.num_elements) * array.element_bytes;
}

}  // namespace

NpyArray parse_npy_header(const std::string& file, std::span<const std::uint8_t> bytes) {
  return take_header(file, bytes);
}

std::uint64_t npy_file_bytes(const std::string& file, std::span<const std::uint8_t> beginning) {
  std::span<const std::uint8_t> rest = beginning;
  const NpyArray array = take_header(file, rest);
  return beginning.size() - rest.size() + num_data_bytes(array);
}

NpyArray parse_npy(const std::string& file, std::span<const std::uint8_t> bytes) {
  std::span<const std::uint8_t> rest = bytes;
  NpyArray array = take_header(file, rest);
  const std::uint64_t expected = num_data_bytes(array);
  if (rest.size() != expected) {
    TERNGRAD_THROW(DataError, "[npy] '", file,
                   rest.size() < expected ? "' is truncated: " : "' has trailing bytes: ", "shape ",
                   shape_text(array.shape), " of ", array.element_bytes, "-byte elements needs ", expected,
                   " bytes, found ", rest.size());
  }
  array.data = rest;
  return array;
}

std::string npy_beginning(NpyKind kind, std::size_t element_bytes, const std::vector<std::int64_t>& shape) {
  constexpr std::size_t kAlignment = 64;
  constexpr std::size_t kLengthBytes = 2;
  const bool is_float = kind == NpyKind::kFloat;
  TERNGRAD_REQUIRE(element_bytes == 8 || element_bytes == 4 || element_bytes == 2 || (element_bytes == 1 && !is_float),
                   "[npy] no ", is_float ? "floats" : "integers", " have ", element_bytes, " bytes");
  std::string sides;
  for (const std::int64_t side : shape) {
    TERNGRAD_REQUIRE(side >= 0, "[npy] a shape has a negative side: ", shape_text(shape));
    sides += (sides.empty() ? "" : " ") + std::to_string(side) + ",";
  }
  // A Python tuple needs a trailing comma only if it has one element.
  if (shape.size() > 1) sides.pop_back();
  const char letter = is_float ? 'f' : kind == NpyKind::kSigned ? 'i' : 'u';
  std::string header = std::string("{'descr': '") + (element_bytes == 1 ? '|' : '<') + letter +
                       std::to_string(element_bytes) + "', 'fortran_order': False, 'shape': (" + sides + "), }";
  const std::size_t before = kMagic.size() + 2 + kLengthBytes;
  const std::size_t total = (before + header.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  header.resize(total - before - 1, ' ');
  header += '\n';
  TERNGRAD_REQUIRE(header.size() < 65536, "[npy] a header of ", header.size(), " bytes is longer than format 1.0 has");
  std::string beginning(kMagic);
  beginning += {'\x01', '\x00'};
  beginning += {static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  return beginning + header;
}

}  // namespace terngrad
