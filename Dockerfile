# One minikafka node: a virtual environment on Python, without pip, run by a user without rights.
#   docker build --tag minikafka .
#   docker run --publish 127.0.0.1:9092:9092 minikafka
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
RUN python -m venv --without-pip /opt/minikafka && pip install --no-cache-dir hatchling
# The packages first, so that a change of the sources does not install them anew.
COPY pyproject.toml ./
RUN python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
    print(*project['dependencies'], *project['optional-dependencies']['metrics'], \
    *project['optional-dependencies']['secure'], sep='\n')" > requirements.txt \
 && pip --python /opt/minikafka/bin/python install --no-cache-dir --requirement requirements.txt
COPY README.md LICENSE pyspark_minikafka.py pyspark_minikafka_log.py ./
COPY minikafka ./minikafka
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir dist . \
 && pip --python /opt/minikafka/bin/python install --no-cache-dir --no-deps dist/*.whl

FROM python:3.11-slim-bookworm
LABEL org.opencontainers.image.title="minikafka" \
      org.opencontainers.image.description="A Kafka-compatible broker in Python, for tests and for learning" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN pip uninstall --yes pip setuptools wheel \
 && useradd --uid 1000 --create-home --home-dir /var/lib/minikafka minikafka \
 && install --directory --owner=minikafka --group=minikafka /var/lib/minikafka/data /var/lib/minikafka/security
COPY --from=build /opt/minikafka /opt/minikafka
COPY docker/server.properties /etc/minikafka/server.properties
COPY docker/healthy docker/security /usr/local/bin/
# The second is for the command line in the container: `docker exec NAME minikafka topic list`.
ENV PATH=/opt/minikafka/bin:$PATH \
    MINIKAFKA_BOOTSTRAP_SERVERS=127.0.0.1:9092
USER minikafka
WORKDIR /var/lib/minikafka
# A named volume mounted here starts as a copy of this directory, and so belongs to the user.
VOLUME /var/lib/minikafka/data
EXPOSE 9092
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=10s --start-period=30s --retries=3 CMD ["healthy"]
# Options follow the image's name: --set NAME=VALUE, or --config FILE in place of this one.
ENTRYPOINT ["python", "-m", "minikafka.broker", "--config", "/etc/minikafka/server.properties"]
