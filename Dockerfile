# One image for the workers, the exporter, the setup and the sample site. With a folder `wheels/` (`make wheels`) it is
# built without any registry of packages; the hashes of the lock hold in both cases.
ARG PYTHON_IMAGE=python:3.13-slim

FROM ${PYTHON_IMAGE} AS build
# A pattern, as the folder need not be there.
COPY requirements/runtime.txt wheel[s] /wheels/
RUN python -m venv --without-pip /opt/venv \
 && if ls /wheels/*.whl >/dev/null 2>&1; then set -- --no-index --find-links /wheels; fi \
 && python -m pip --python /opt/venv/bin/python --no-cache-dir --disable-pip-version-check \
      install --require-hashes --only-binary :all: --requirement /wheels/runtime.txt "$@"
COPY . /app
# The root of a container is read-only: compiled once here. And whatever the umask of the checkout, the user may read.
RUN rm -rf /app/wheels /app/requirements && python -m compileall -q /app && chmod -R a+rX /app


FROM ${PYTHON_IMAGE}
RUN groupadd --gid 10001 seedbed \
 && useradd --uid 10001 --gid seedbed --no-create-home --home-dir /tmp --shell /usr/sbin/nologin seedbed
# A new volume takes over the owner of the folder that it is mounted on.
RUN install --directory --owner=10001 --group=10001 --mode=700 /spool /archive
COPY --from=build /opt/venv /opt/venv
COPY --from=build /app /app
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /app
USER 10001:10001
CMD ["scrapy", "crawl", "site"]
