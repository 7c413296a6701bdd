//===- RoutedRows.cpp - Rows of tokens in messages, on the host -----------===//

#include "core/RoutedRows.h"
#include "core/DType.h"
#include "core/Half.h"
#include <algorithm>
#include <bit>
#include <span>
#include <vector>

namespace tpc::rt {
namespace {

/// `Element`: an integer with the bits of an element.
template <typename Element> class HostRows {
public:
  HostRows(const RoutedRows &rows, void *tensor)
      : rows(rows), tensor(static_cast<Element *>(tensor)), tokenSize(rows.width - rows.experts) {}

  void select() {
    for (const RoutedPart &part : parts()) {
      std::fill_n(bitsOf(part), (rows.bitsOf(part) + 7) / 8, uint8_t(0));
      for (int64_t i = 0; i < rows.bitsOf(part); ++i)
        if (isSet(part, i))
          bitsOf(part)[i / 8] |= uint8_t(1) << i % 8;
    }
  }

  void locate() {
    for (const RoutedPart &part : parts()) {
      int64_t perRow = rows.combines ? 1 : part.weights, next = 0;
      for (int64_t r = 0; r < part.rows; ++r) {
        int64_t count = 0;
        for (int64_t i = r * perRow; i < (r + 1) * perRow; ++i)
          count += get(part, i);
        rows.places[part.places + r] = count ? static_cast<int32_t>(next) : -1;
        if (count)
          next += tokenSize + (rows.combines ? 0 : count);
      }
      rows.sizes[&part - rows.parts] = static_cast<int32_t>(next);
    }
  }

  void pack() {
    forEachRow([&](const RoutedPart &part, int64_t r, Element *data) {
      if (!data)
        return;
      const Element *row = rowOf(part, r);
      data = std::copy_n(row, rows.column, data);
      data = std::copy_n(row + rows.column + rows.experts, tokenSize - rows.column, data);
      for (int64_t e = 0; e < part.weights; ++e)
        if (isNonzero(row[rows.column + part.firstWeight + e]))
          *data++ = row[rows.column + part.firstWeight + e];
    });
  }

  void unpack() {
    forEachRow([&](const RoutedPart &part, int64_t r, const Element *data) {
      Element *row = rowOf(part, r);
      std::fill_n(row, rows.width, Element(0));
      if (!data)
        return;
      std::copy_n(data, rows.column, row);
      std::copy_n(data + rows.column, tokenSize - rows.column, row + rows.column + rows.experts);
      data += tokenSize;
      for (int64_t e = 0; e < part.weights; ++e)
        if (get(part, r * part.weights + e))
          row[rows.column + part.firstWeight + e] = *data++;
    });
  }

  template <auto widen, auto narrow> void add() {
    std::vector<float> sums(static_cast<size_t>(rows.width));
    for (int64_t r = 0; r < parts()[0].rows; ++r) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (const RoutedPart &part : parts())
        if (int32_t place = rows.places[part.places + r]; place >= 0)
          for (int64_t i = 0; i < rows.width; ++i)
            sums[i] += widen(dataOf(part)[place + i]);
      std::transform(sums.begin(), sums.end(), tensor + r * rows.width, narrow);
    }
  }

private:
  std::span<const RoutedPart> parts() const {
    return {rows.parts, static_cast<size_t>(rows.numParts)};
  }
  uint8_t *bitsOf(const RoutedPart &part) const { return rows.bits + part.bits; }
  Element *dataOf(const RoutedPart &part) const {
    return static_cast<Element *>(rows.data) + part.data;
  }
  Element *rowOf(const RoutedPart &part, int64_t r) const {
    return tensor + (part.firstRow + r) * rows.width;
  }
  bool get(const RoutedPart &part, int64_t i) const { return bitsOf(part)[i / 8] >> i % 8 & 1; }
  /// Neither 0 nor -0.
  static bool isNonzero(Element x) { return static_cast<Element>(x << 1) != 0; }
  bool isSet(const RoutedPart &part, int64_t i) const {
    if (rows.combines)
      return std::any_of(rowOf(part, i), rowOf(part, i + 1), isNonzero);
    int64_t r = i / part.weights, e = i % part.weights;
    return isNonzero(rowOf(part, r)[rows.column + part.firstWeight + e]);
  }
  /// Calls `f` with each row of each part, and the row's data, or null.
  template <typename F> void forEachRow(F f) const {
    for (const RoutedPart &part : parts())
      for (int64_t r = 0; r < part.rows; ++r) {
        int32_t place = rows.places[part.places + r];
        f(part, r, place >= 0 ? dataOf(part) + place : nullptr);
      }
  }

  const RoutedRows &rows;
  Element *tensor;
  const int64_t tokenSize;
};

template <typename Element, auto widen, auto narrow>
void exchangeTyped(RoutedWork work, const RoutedRows &rows, void *tensor) {
  HostRows<Element> host(rows, tensor);
  switch (work) {
  case RoutedWork::Select:
    return host.select();
  case RoutedWork::Locate:
    return host.locate();
  case RoutedWork::Pack:
    return host.pack();
  case RoutedWork::Unpack:
    return rows.combines ? host.template add<widen, narrow>() : host.unpack();
  }
}

float toFloat(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t fromFloat(float x) { return std::bit_cast<uint32_t>(x); }

} // namespace

void exchangeRowsOnHost(RoutedWork work, const RoutedRows &rows, void *tensor) {
  if (rows.dtype == TPC_F32)
    exchangeTyped<uint32_t, toFloat, fromFloat>(work, rows, tensor);
  else if (rows.dtype == TPC_F16)
    exchangeTyped<uint16_t, halfToFloat, floatToHalf>(work, rows, tensor);
  else
    exchangeTyped<uint16_t, bfloatToFloat, floatToBfloat>(work, rows, tensor);
}

} // namespace tpc::rt
