#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace drydock::ledger {

/// What SQLite said, with the file. Does not leave src/ledger: its functions return Status.
class DatabaseError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Statement;

/// One open ledger file. Not thread-safe. All functions throw DatabaseError.
class Database {
 public:
  enum class Mode { kRead, kCreate, kUpdate };
  /// kCreate replaces a file that is there.
  Database(const std::filesystem::path& path, Mode mode);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void execute(const char* sql);
  Statement prepare(std::string_view sql);
  int64_t integer(std::string_view sql);
  int64_t last_row_id() const;
  [[noreturn]] void fail(std::string_view doing) const;

 private:
  friend class Statement;
  std::string path_;
  sqlite3* handle_ = nullptr;
};

/// A prepared statement: bind all parameters with `run` (no rows) or `bind`, then `step`.
class Statement {
 public:
  Statement(Database& database, std::string_view sql);
  ~Statement();
  Statement(Statement&& other) noexcept;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  template <class... Values>
  Statement& bind(const Values&... values) {
    reset();
    int index = 0;
    (bind_one(++index, values), ...);
    return *this;
  }
  template <class... Values>
  void run(const Values&... values) {
    bind(values...);
    while (step()) {}
  }
  /// True while there is a row.
  bool step();

  int64_t integer(int column) const;
  uint64_t unsigned_integer(int column) const { return static_cast<uint64_t>(integer(column)); }
  double number(int column) const;
  std::string text(int column) const;
  bool is_null(int column) const;

 private:
  void reset();
  template <std::integral Integer>
  void bind_one(int index, Integer value) {
    bind_integer(index, static_cast<int64_t>(value));
  }
  void bind_one(int index, double value);
  void bind_one(int index, std::string_view value);
  void bind_one(int index, std::nullptr_t);
  template <class Value>
  void bind_one(int index, const std::optional<Value>& value) {
    if (value) {
      bind_one(index, *value);
    } else {
      bind_one(index, nullptr);
    }
  }
  void bind_integer(int index, int64_t value);

  Database* database_;
  sqlite3_stmt* handle_ = nullptr;
};

}  // namespace drydock::ledger
