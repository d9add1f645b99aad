"""Creates the SQLAlchemy engine of a store from the URL of its database."""

from __future__ import annotations

from typing import Any

from .errors import DefinitionError, DefinitionProblem, MissingExtraError

# The packages that contain the modules of drivers, where the names differ.
_PACKAGES = {"MySQLdb": "mysqlclient", "psycopg2": "psycopg2-binary"}
# Drivers that pip installs without a compiler.
_DRIVERS = {"mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql", "postgresql": "postgresql+psycopg"}


def create_engine(sql: Any, url: object, store: str) -> Any:
    """Return the SQLAlchemy engine for the URL of a database, or a given engine.

    ``store`` is the name of the class for messages.

    Raises DefinitionError for a URL that SQLAlchemy cannot read, and MissingExtraError without the driver.
    """
    if isinstance(url, sql.engine.Engine):
        return url
    if not isinstance(url, str):
        message = f"url has the type {type(url).__name__}; pass a URL or an Engine of SQLAlchemy"
        raise DefinitionError([DefinitionProblem(store, message)])
    scheme = url.partition(":")[0]
    try:
        return sql.create_engine(url, pool_pre_ping=True)
    except sql.exc.ArgumentError as error:
        message = (
            f"SQLAlchemy cannot use the scheme {scheme!r} of the URL; "
            'write it as in "postgresql+psycopg://user@host/database"'
        )
        raise DefinitionError([DefinitionProblem(store, message)]) from error
    except ModuleNotFoundError as error:
        module = str(error.name).partition(".")[0]
        package = _PACKAGES.get(module, module)
        driver = _DRIVERS.get(scheme.partition("+")[0])
        message = f"{store} needs the package {package} for {scheme} URLs: pip install {package}"
        if driver not in (None, scheme):
            message += f', or let the URL name another driver, as in "{driver}://…"'
        raise MissingExtraError(message, name=module) from None
