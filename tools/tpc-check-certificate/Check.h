//===- Check.h - Check of a certificate of deadlock freedom -----*- C++ -*-===//

#ifndef TPC_TOOLS_TPC_CHECK_CERTIFICATE_CHECK_H
#define TPC_TOOLS_TPC_CHECK_CERTIFICATE_CHECK_H

#include <nlohmann/json.hpp>
#include <string>

namespace certificate {

using json = nlohmann::json;

/// Throws a std::runtime_error with the reason why a certificate is invalid.
[[noreturn]] void refuse(const std::string &why);

/// Checks a certificate; calls refuse if it is invalid.
void checkCertificate(const json &certificate);

/// Returns the FNV-1a hash of a text, with a final mix, as 16 hexadecimal digits.
std::string hashOf(const std::string &text);

} // namespace certificate

#endif // TPC_TOOLS_TPC_CHECK_CERTIFICATE_CHECK_H
