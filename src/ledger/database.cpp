#include "ledger/database.h"

#include <sqlite3.h>
#include <utility>

#include <fmt/format.h>

namespace drydock::ledger {

Database::Database(const std::filesystem::path& path, Mode mode) : path_(path.string()) {
  int flags = SQLITE_OPEN_NOMUTEX;
  if (mode == Mode::kCreate) {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  } else {
    flags |= mode == Mode::kUpdate ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
  }
  if (sqlite3_open_v2(path_.c_str(), &handle_, flags, nullptr) != SQLITE_OK) {
    const std::string message = fmt::format("{} can't be opened: {}", path_, sqlite3_errmsg(handle_));
    sqlite3_close(handle_);
    throw DatabaseError(message);
  }
}

Database::~Database() { sqlite3_close(handle_); }

void Database::fail(std::string_view doing) const {
  throw DatabaseError(fmt::format("{}: {}: {}", path_, doing, sqlite3_errmsg(handle_)));
}

void Database::execute(const char* sql) {
  if (sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail("a statement failed");
}

Statement Database::prepare(std::string_view sql) { return Statement(*this, sql); }

int64_t Database::integer(std::string_view sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.integer(0) : 0;
}

int64_t Database::last_row_id() const { return sqlite3_last_insert_rowid(handle_); }

Statement::Statement(Database& database, std::string_view sql) : database_(&database) {
  if (sqlite3_prepare_v2(database.handle_, sql.data(), static_cast<int>(sql.size()), &handle_, nullptr) != SQLITE_OK)
    database.fail("a statement can't be prepared");
}

Statement::~Statement() { sqlite3_finalize(handle_); }

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_), handle_(std::exchange(other.handle_, nullptr)) {}

void Statement::reset() { sqlite3_reset(handle_); }

bool Statement::step() {
  const int result = sqlite3_step(handle_);
  if (result == SQLITE_ROW) return true;
  if (result != SQLITE_DONE) database_->fail("a row can't be read or written");
  sqlite3_reset(handle_);
  return false;
}

void Statement::bind_integer(int index, int64_t value) {
  if (sqlite3_bind_int64(handle_, index, value) != SQLITE_OK) database_->fail("a value can't be bound");
}

void Statement::bind_one(int index, double value) {
  if (sqlite3_bind_double(handle_, index, value) != SQLITE_OK) database_->fail("a value can't be bound");
}

void Statement::bind_one(int index, std::string_view value) {
  if (sqlite3_bind_text(handle_, index, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT) != SQLITE_OK)
    database_->fail("a value can't be bound");
}

void Statement::bind_one(int index, std::nullptr_t) {
  if (sqlite3_bind_null(handle_, index) != SQLITE_OK) database_->fail("a value can't be bound");
}

int64_t Statement::integer(int column) const { return sqlite3_column_int64(handle_, column); }
double Statement::number(int column) const { return sqlite3_column_double(handle_, column); }
bool Statement::is_null(int column) const { return sqlite3_column_type(handle_, column) == SQLITE_NULL; }

std::string Statement::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
  return text == nullptr ? std::string()
                         : std::string(text, static_cast<size_t>(sqlite3_column_bytes(handle_, column)));
}

}  // namespace drydock::ledger
