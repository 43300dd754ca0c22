# One minikafka node. The build stage makes a virtual environment; the image is that and nothing else, run by a user without rights.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
RUN python -m venv /opt/minikafka && pip install --no-cache-dir hatchling
# The packages first, so that a change of the sources does not install them anew.
COPY pyproject.toml ./
RUN python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" > requirements.txt \
 && /opt/minikafka/bin/pip install --no-cache-dir --requirement requirements.txt
COPY README.md LICENSE pyspark_minikafka.py pyspark_minikafka_log.py ./
COPY minikafka ./minikafka
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir dist . \
 && /opt/minikafka/bin/pip install --no-cache-dir --no-deps dist/*.whl

FROM python:3.11-slim-bookworm
RUN useradd --uid 1000 --create-home --home-dir /var/lib/minikafka minikafka \
 && install --directory --owner=minikafka --group=minikafka /var/lib/minikafka/data
COPY --from=build /opt/minikafka /opt/minikafka
ENV PATH=/opt/minikafka/bin:$PATH
USER minikafka
WORKDIR /var/lib/minikafka
# A named volume mounted here starts as a copy of this directory, and so belongs to the user.
VOLUME /var/lib/minikafka/data
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s --retries=2 CMD ["python", "-m", "minikafka.chaos.probe"]
ENTRYPOINT ["python", "-m", "minikafka.broker"]
